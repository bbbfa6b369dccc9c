//! The outbox on PostgreSQL: one file for each statement.

pub(crate) mod admin;
mod archive;
mod claim;
mod insert;
mod maintain;
mod settle;
mod through_indexes;

pub(crate) use self::archive::{archive_published, prepare_archive};
pub(crate) use self::claim::{claim, millis, renew};
pub(crate) use self::insert::insert;
pub(crate) use self::maintain::{outbox_stats, purge_published, put_back_expired, release};
pub(crate) use self::settle::settle;

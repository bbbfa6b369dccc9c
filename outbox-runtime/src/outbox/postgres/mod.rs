//! The outbox on PostgreSQL: one file for each statement.

mod cancel;
mod claim;
mod insert;
mod maintain;
mod settle;

pub(crate) use self::cancel::{cancel, standing};
pub(crate) use self::claim::{claim, millis, renew};
pub(crate) use self::insert::insert;
pub(crate) use self::maintain::{outbox_stats, purge_published, put_back_expired, release};
pub(crate) use self::settle::settle;

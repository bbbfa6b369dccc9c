//! The outbox on SQLite: one file for each statement.

pub(crate) mod admin;
mod archive;
mod claim;
mod insert;
mod maintain;
mod settle;

pub(crate) use self::archive::{archive_published, prepare_archive};
pub(crate) use self::claim::{DUE, claim, renew};
pub(crate) use self::insert::insert;
pub(crate) use self::maintain::{outbox_stats, purge_published, put_back_expired, release};
pub(crate) use self::settle::settle;

#[cfg(test)]
pub(crate) mod statements {
    pub(crate) use super::archive::{OLDEST, TAKE_AWAY};
    pub(crate) use super::claim::{CLAIM, DUE, RENEW};
    pub(crate) use super::maintain::{EXPIRED, OLD, PURGE_PUBLISHED, PUT_BACK_EXPIRED, RELEASE, STATS};
    pub(crate) use super::settle::SETTLE;
}

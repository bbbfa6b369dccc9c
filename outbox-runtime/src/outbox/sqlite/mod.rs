//! The outbox on SQLite: one file for each statement.

mod cancel;
mod claim;
mod insert;
mod maintain;
mod settle;

pub(crate) use self::cancel::{cancel, standing};
pub(crate) use self::claim::{DUE, claim, renew};
pub(crate) use self::insert::insert;
pub(crate) use self::maintain::{outbox_stats, purge_published, put_back_expired, release};
pub(crate) use self::settle::settle;

#[cfg(test)]
pub(crate) mod statements {
    pub(crate) use super::cancel::{CANCEL, STANDING};
    pub(crate) use super::claim::{CLAIM, DUE, RENEW};
    pub(crate) use super::maintain::{EXPIRED, OLD, PURGE_PUBLISHED, PUT_BACK_EXPIRED, RELEASE, STATS};
    pub(crate) use super::settle::SETTLE;
}

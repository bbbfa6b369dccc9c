//! The outbox on SQLite: one file for each task.

pub(crate) mod admin;
mod archive;
mod cancel;
mod claim;
mod insert;
pub(crate) mod line;
mod maintain;
mod put_back;
mod settle;

pub(crate) use self::archive::{archive_published, prepare_archive};
pub(crate) use self::cancel::{cancel, standing};
pub(crate) use self::claim::{DUE, budget, claim, defer, renew};
pub(crate) use self::insert::insert;
pub(crate) use self::maintain::{outbox_stats, purge_published};
pub(crate) use self::put_back::{put_back_expired, release, release_waiting};
pub(crate) use self::settle::{pull, settle};

#[cfg(test)]
pub(crate) mod statements {
    pub(crate) use super::archive::{OLDEST, TAKE_AWAY};
    pub(crate) use super::cancel::{CANCEL, STANDING};
    pub(crate) use super::claim::{CLAIM, DEFER, DUE, LOOK_AGAIN, RENEW};
    pub(crate) use super::line::{FIRST, TAKE};
    pub(crate) use super::maintain::{OLD, PURGE_PUBLISHED, STATS};
    pub(crate) use super::put_back::{EXPIRED, HEADS, PUT_BACK_EXPIRED, RELEASE, RELEASE_WAITING};
    pub(crate) use super::settle::{DELETE, PULL, SETTLE};
}

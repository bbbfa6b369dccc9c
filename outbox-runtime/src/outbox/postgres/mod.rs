//! The outbox on PostgreSQL: one file for each task.

pub(crate) mod admin;
mod archive;
mod cancel;
mod claim;
mod insert;
mod line;
mod listen;
mod maintain;
mod put_back;
mod settle;
mod through_indexes;
mod wakeup;

pub(crate) use self::archive::{archive_published, prepare_archive};
pub(crate) use self::cancel::{cancel, standing};
pub(crate) use self::claim::{budget, claim, millis, renew, seconds};
pub(crate) use self::insert::insert;
pub(crate) use self::line::line;
pub(crate) use self::listen::listen;
pub(crate) use self::maintain::{outbox_stats, purge_published};
pub(crate) use self::put_back::{put_back_expired, release, release_waiting};
pub(crate) use self::settle::settle;
pub(crate) use self::wakeup::{announce_sleep, say_routed, withdraw_sleep};

pub(crate) mod statements {
    pub use super::claim::{CLAIM, RENEW};
    pub use super::maintain::{PURGE_PUBLISHED, STATS};
    pub use super::put_back::{PUT_BACK_EXPIRED, RELEASE, RELEASE_WAITING};
    pub use super::settle::SETTLE;
}

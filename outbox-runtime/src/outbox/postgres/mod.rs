//! The outbox on PostgreSQL: one file for each statement.

mod claim;
mod insert;
mod listen;
mod maintain;
mod settle;
mod wakeup;

pub(crate) use self::claim::{claim, millis, renew};
pub(crate) use self::insert::insert;
pub(crate) use self::listen::listen;
pub(crate) use self::maintain::{outbox_stats, purge_published, put_back_expired, release};
pub(crate) use self::settle::settle;
pub(crate) use self::wakeup::{announce_sleep, say_routed, withdraw_sleep};

//! The inbox on SQLite.

mod dedup;
mod floor;
mod park;
mod rerun;

pub(crate) use self::dedup::{committed_by_handler, inbox_record, insert_inbox};
pub(crate) use self::floor::{hold_floor, move_floor};
pub(crate) use self::park::{park, parked_stats};
pub(crate) use self::rerun::{alone_due, begin_rerun, claim_parked, repark};

#[cfg(test)]
pub(crate) mod statements {
    pub(crate) use super::dedup::{COMMITTED, INSERT, RECORD, TAKE};
    pub(crate) use super::floor::{BELOW, PURGE};
    pub(crate) use super::park::STATS;
    pub(crate) use super::rerun::{ALONE_DUE, BEGIN, CLAIM, CLAIM_ALONE, DUE};
}

//! The inbox: one dedup record for each event and consumer, and the messages that wait for another run or for a person.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod row;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

pub(crate) use self::row::{
    Disposition, FloorMove, InboxEntry, InboxRecord, NewParked, ParkedClaim, ParkedRow, ParkedStats, ParkedStatus,
    Reason, Reparked, Stamp,
};

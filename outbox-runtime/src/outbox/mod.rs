//! The outbox: events written in the caller's own transaction, claimed and settled by the relay.

mod archive;
mod begin;
mod cancel;
mod columns;
mod ear;
mod enqueue;
mod listen;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod row;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
mod status;
pub(crate) mod wake;

pub use self::archive::{ArchiveState, ArchiveTable};
pub use self::begin::begin;
pub use self::cancel::{Cancel, Standing, cancel, cancel_on_connection};
pub use self::enqueue::{enqueue, enqueue_all, enqueue_on_connection};
pub use self::row::{
    Budget, ClaimLimits, Claimed, ClaimedRow, Fate, LineCursor, OutboxStats, STATS_BOUND, Settled, Settlement,
};
pub use self::status::EventStatus;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use self::archive::{ARCHIVE_COLUMNS, moved_columns};
pub(crate) use self::ear::{Ear, Heard};
pub(crate) use self::enqueue::insert;
pub(crate) use self::listen::{Deaf, ListenFrom};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use crate::admin::admin_time;

/// The texts of the relay's statements on PostgreSQL, for the test of their plans.
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub mod statements {
    pub use super::postgres::statements::*;
    pub use crate::queue::postgres::ROUTE;
}

/// Keys of the `headers` column that are ours; callers cannot use them.
pub(crate) mod own_header {
    /// The id that all events of one business process share.
    pub(crate) const CORRELATION: &str = "outbox-correlation-id";
    /// The id of the event whose handler wrote this one.
    pub(crate) const CAUSATION: &str = "outbox-causation-id";
    /// W3C trace context.
    pub(crate) const TRACEPARENT: &str = "traceparent";
    /// W3C trace state.
    pub(crate) const TRACESTATE: &str = "tracestate";
}

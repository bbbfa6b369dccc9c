//! The outbox: events written in the caller's own transaction, claimed and settled by the relay.

mod archive;
mod begin;
mod columns;
mod enqueue;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod row;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
pub(crate) mod wake;

pub use self::archive::{ArchiveState, ArchiveTable};
pub use self::begin::begin;
pub use self::enqueue::{enqueue, enqueue_all, enqueue_on_connection};
pub use self::row::{ClaimLimits, ClaimedRow, Fate, OutboxStats, STATS_BOUND, Settlement};

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use self::archive::{ARCHIVE_COLUMNS, moved_columns};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use crate::admin::admin_time;

pub(crate) use self::enqueue::insert;

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

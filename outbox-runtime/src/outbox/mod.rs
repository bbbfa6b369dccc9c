//! The outbox: events written in the caller's own transaction, claimed and settled by the relay.

mod begin;
mod columns;
mod ear;
mod enqueue;
mod listen;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod row;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
pub(crate) mod wake;

pub use self::begin::begin;
pub use self::enqueue::{enqueue, enqueue_all, enqueue_on_connection};
pub use self::row::{ClaimLimits, ClaimedRow, Fate, OutboxStats, STATS_BOUND, Settlement};

pub(crate) use self::ear::{Ear, Heard};
pub(crate) use self::enqueue::insert;
pub(crate) use self::listen::{Deaf, ListenFrom};

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

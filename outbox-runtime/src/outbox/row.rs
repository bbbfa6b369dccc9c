//! A row of the outbox as the relay handles it.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::event::{HeaderMap, Unroutable};

/// How much one claim may take.
#[derive(Debug, Clone, Copy)]
pub struct ClaimLimits {
    /// At most so many rows.
    pub rows: usize,
    /// At most so many bytes of bodies; one row is always allowed.
    pub bytes: usize,
    /// How long the claim holds.
    pub lease: Duration,
}

/// A claimed row.
#[derive(Debug, Clone)]
pub struct ClaimedRow {
    /// The event's id.
    pub event_id: String,
    /// The id of the aggregate.
    pub aggregate_id: String,
    /// The event's name.
    pub event_type: String,
    /// The event's version.
    pub event_version: i32,
    /// The exchange, without a namespace.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// The form of the body.
    pub envelope: String,
    /// The body.
    pub payload: String,
    /// The caller's headers and ours.
    pub headers: HeaderMap,
    /// When it happened.
    pub occurred_at: DateTime<Utc>,
    /// When it was written, by the database's clock.
    pub enqueued_at: DateTime<Utc>,
    /// How long before the claim it was written, by the database's clock.
    pub age: Duration,
    /// What happens while no queue wants it.
    pub unroutable: Unroutable,
    /// Attempts spent before this one.
    pub attempt_count: i32,
    /// When these are spent the row is Failed.
    pub max_attempts: i32,
    /// Why the row cannot be sent as it is: somebody wrote it by hand.
    pub defect: Option<String>,
}

/// What becomes of a claimed row.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// The broker has it.
    Published,
    /// Another try after this time.
    Retry {
        /// How long to wait.
        after: Duration,
        /// Whether this try counts.
        spent: bool,
        /// Why.
        error: String,
    },
    /// The budget is spent.
    Failed {
        /// Why.
        error: String,
    },
    /// Given back unused, due at once.
    PutBack,
}

/// One row's fate, fenced by its claim.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The row.
    pub event_id: String,
    /// The claim that it is settled under.
    pub claim_id: String,
    /// What becomes of it.
    pub fate: Fate,
}

/// Figures of the outbox. Counts stop at [`STATS_BOUND`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OutboxStats {
    /// Rows that wait.
    pub pending: u64,
    /// Rows that a relay has.
    pub processing: u64,
    /// Waiting rows that had an error.
    pub held: u64,
    /// Rows whose budget is spent.
    pub failed: u64,
    /// Rows whose lease has run out and that nobody has put back yet.
    pub expired: u64,
    /// How long ago the oldest unpublished event was written.
    pub oldest: Option<Duration>,
}

/// Where counts stop.
pub const STATS_BOUND: i64 = 100_000;

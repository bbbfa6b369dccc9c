//! A row of the outbox as the relay handles it.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::event::{HeaderMap, OnFailed, Unroutable};

/// How much one claim may take.
#[derive(Debug, Clone, Copy)]
pub struct ClaimLimits {
    /// At most so many rows.
    pub rows: usize,
    /// At most so many bytes of bodies; one row is always allowed.
    pub bytes: usize,
    /// How long the claim holds.
    pub lease: Duration,
    /// Rows that were due before this need not be looked at; a hint, which saves PostgreSQL the walk past dead rows.
    pub since: Option<DateTime<Utc>>,
}

/// A claimed row.
#[derive(Debug, Clone)]
pub struct ClaimedRow {
    /// The event's id.
    pub event_id: String,
    /// The kind of the aggregate.
    pub aggregate_type: String,
    /// The id of the aggregate.
    pub aggregate_id: String,
    /// The event's number in its key's line, if it has to keep its place there.
    pub sequence: Option<i64>,
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
    /// When it was written or, delayed, was due, by the database's clock.
    pub enqueued_at: DateTime<Utc>,
    /// How long before the claim it was written or, delayed, due, by the database's clock.
    pub age: Duration,
    /// Its policies and its history.
    pub budget: Budget,
    /// Why the row cannot be sent as it is: somebody wrote it by hand.
    pub defect: Option<String>,
}

/// What one claim found.
#[derive(Debug, Clone, Default)]
pub struct Claimed {
    /// The rows that are ours now, in the order in which they are to be published.
    pub rows: Vec<ClaimedRow>,
    /// Due rows that wait for an earlier one of their key, and were put aside.
    pub deferred: u64,
    /// The latest time at which a row was due that it met; for the next hint.
    pub met: Option<DateTime<Utc>>,
}

/// A row's policies and history, as they stand in the row.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// What happens while no queue wants it.
    pub unroutable: Unroutable,
    /// Attempts spent before this one.
    pub attempt_count: i32,
    /// When these are spent the row is Failed.
    pub max_attempts: i32,
    /// An event that was written longer ago has spent its budget with its next failure.
    pub max_age: Option<Duration>,
    /// What its failure means for the later events of its key.
    pub on_failed: OnFailed,
    /// The pause after the first failure, and the longest.
    pub backoff: (Duration, Duration),
    /// How often nobody knew whether the broker got it.
    pub unknown_count: i32,
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
        /// Whether the broker may have it already.
        unknown: bool,
        /// Whether the later events of its key go on without it.
        skipped: bool,
        /// Why.
        error: String,
    },
    /// The budget is spent.
    Failed {
        /// Why.
        error: String,
        /// Whether the later events of its key go on without it.
        skipped: bool,
    },
    /// Given back unused: the event before it in its line was not published.
    Blocked,
    /// Given back unused, due at once.
    PutBack,
}

impl Fate {
    /// Whether the next event of the same key may go.
    pub(crate) fn lets_pass(&self) -> bool {
        match self {
            Self::Published => true,
            Self::Retry { skipped, .. } | Self::Failed { skipped, .. } => *skipped,
            Self::Blocked | Self::PutBack => false,
        }
    }
}

/// How a settlement went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    /// Rows that were still ours.
    pub settled: u64,
    /// Rows that waited for one of them, and are due now.
    pub pulled: u64,
}

/// Where the sweep of the lines goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineCursor {
    pub(crate) aggregate_type: String,
    pub(crate) aggregate_id: String,
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

/// Figures of the outbox. Counts stop at [`STATS_BOUND`], those of `blocked` and `later` at a tenth of it: their rows lie anywhere in the table.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OutboxStats {
    /// Rows that wait.
    pub pending: u64,
    /// Rows that a relay has.
    pub processing: u64,
    /// Waiting rows that had an error.
    pub held: u64,
    /// Waiting rows that are put aside until an earlier one of their key is published.
    pub blocked: u64,
    /// Waiting rows that are due later: delayed, or tried again after a pause.
    pub later: u64,
    /// Rows whose budget is spent.
    pub failed: u64,
    /// Rows whose lease has run out and that nobody has put back yet.
    pub expired: u64,
    /// How long ago the oldest unpublished event was written.
    pub oldest: Option<Duration>,
}

/// Where counts stop.
pub const STATS_BOUND: i64 = 100_000;

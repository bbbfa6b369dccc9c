//! Rows of the broker "database" as relay and consumer handle them.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::event::{HeaderMap, Unroutable};
use crate::outbox::ClaimLimits;

/// One round of routing.
#[derive(Debug, Clone)]
pub struct RouteClaim {
    /// `instance:ulid`, for rows that are not routed.
    pub claim_id: String,
    /// What stands before the exchange's name: a namespace and its dot, or nothing.
    pub prefix: String,
    /// How much it may take.
    pub limits: ClaimLimits,
}

/// What became of a due row.
#[derive(Debug, Clone)]
pub struct RoutedRow {
    /// The event's id.
    pub event_id: String,
    /// The event's name.
    pub event_type: String,
    /// The exchange, without a namespace.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// How many queues took it; then it is Published. With none it is claimed and waits to be settled.
    pub queues: i64,
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

/// A claim of messages of a queue.
#[derive(Debug, Clone)]
pub struct QueueClaim {
    /// The queue, with namespace.
    pub queue: String,
    /// `instance:ulid`.
    pub claim_id: String,
    /// At most so many.
    pub limit: i64,
    /// How long the claim holds.
    pub lease: Duration,
}

/// A claimed message, and the fence of its claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueKey {
    /// Its key in the table.
    pub message_id: i64,
    /// The claim.
    pub claim_id: String,
}

/// A message of a queue.
#[derive(Debug, Clone)]
pub struct QueueRow {
    /// Its key in the table.
    pub message_id: i64,
    /// The event's id.
    pub event_id: String,
    /// The id of the aggregate.
    pub aggregate_id: String,
    /// The event's name.
    pub event_type: String,
    /// The event's version.
    pub event_version: i32,
    /// The exchange that it came through, with namespace.
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
    /// When it was written.
    pub enqueued_at: DateTime<Utc>,
    /// The number of this delivery.
    pub deliveries: i32,
}

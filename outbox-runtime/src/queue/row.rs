//! Rows of the broker "database" as relay and consumer handle them.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::event::HeaderMap;
use crate::outbox::{Budget, ClaimLimits};

/// One round of routing.
#[derive(Debug, Clone)]
pub struct RouteClaim {
    /// `instance:ulid`, for rows that are not routed.
    pub claim_id: String,
    /// What stands before the exchange's name: a namespace and its dot, or nothing.
    pub prefix: String,
    /// How much it may take.
    pub limits: ClaimLimits,
    /// Whether what is Published is deleted at once.
    pub delete_published: bool,
}

/// What one round of routing found.
#[derive(Debug, Clone, Default)]
pub struct Routed {
    /// Rows that were routed, or stay claimed.
    pub rows: Vec<RoutedRow>,
    /// Rows that wait for an earlier one of their key.
    pub deferred: u64,
    /// The latest time at which a row was due that it met; for the next hint.
    pub met: Option<DateTime<Utc>>,
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
    /// Whether a queue took it; then it is Published. If none did it is claimed and waits to be settled.
    pub published: bool,
    /// How long before the claim it was written or, delayed, due, by the database's clock.
    pub age: Duration,
    /// Its policies and its history.
    pub budget: Budget,
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
    /// The body, as it lies there.
    pub payload: Vec<u8>,
    /// The caller's headers and ours.
    pub headers: HeaderMap,
    /// When it happened.
    pub occurred_at: Option<DateTime<Utc>>,
    /// When it was written.
    pub enqueued_at: Option<DateTime<Utc>>,
    /// The number of this delivery.
    pub deliveries: i32,
    /// Why no handler may have it: somebody wrote or edited it by hand. It is parked; its neighbours go on.
    pub defect: Option<String>,
}

impl QueueRow {
    /// Reads the column of headers, and notes everything in the row that the relay would not have written.
    pub(crate) fn with_headers(mut self, headers: &str) -> Self {
        match serde_json::from_str(headers) {
            Ok(headers) => self.headers = headers,
            Err(_) => self.spoilt("its headers are not a JSON object"),
        }
        if self.occurred_at.is_none() {
            self.spoilt("its `occurred_at` is outside the years 1 to 9999");
        }
        if self.enqueued_at.is_none() {
            self.spoilt("its `enqueued_at` is outside the years 1 to 9999");
        }
        if self.event_version < 1 {
            self.spoilt("its `event_version` is below 1");
        }
        if std::str::from_utf8(&self.payload).is_err() {
            self.spoilt("its payload is not UTF-8");
        }
        self
    }

    fn spoilt(&mut self, why: &str) {
        self.defect.get_or_insert_with(|| why.to_owned());
    }
}

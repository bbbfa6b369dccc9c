//! An event as an operator sees it.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::admin::EventStatus;
use crate::event::{HeaderMap, OnFailed, Unroutable};

/// A row of the outbox. Neither `Debug` nor anything that the library logs shows its payload or its headers.
///
/// A time is `None` where the table has none that has a form: infinite, or outside the years 1 to 9999.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// Its id.
    pub event_id: String,
    /// Its name.
    pub event_type: String,
    /// Its version.
    pub event_version: i32,
    /// The kind of thing that it tells of.
    pub aggregate_type: String,
    /// The thing that it tells of: its key.
    pub aggregate_id: String,
    /// Its place among the events of its key, if it is ordered.
    pub sequence: Option<i64>,
    /// Where it goes, without a namespace.
    pub exchange: String,
    /// Under which routing key.
    pub routing_key: String,
    /// The form of the body.
    pub envelope: String,
    /// The size of the body.
    pub payload_bytes: i32,
    /// Its state.
    pub status: EventStatus,
    /// Attempts spent.
    pub attempt_count: i32,
    /// How many there may be.
    pub max_attempts: i32,
    /// How often nobody knew whether the broker had it.
    pub unknown_count: i32,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// Whether it stands behind another event of its key and was found there: it is looked at again when that one is gone.
    pub blocked: bool,
    /// Whether later events of its key no longer wait for it.
    pub skipped: bool,
    /// What happens while no queue wants it.
    pub unroutable: Unroutable,
    /// What happens to the later events of its key when it is Failed.
    pub on_failed: OnFailed,
    /// When it is tried (again).
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Whose it is at the moment: the claim of a relay.
    pub locked_by: Option<String>,
    /// When that claim runs out unless it is renewed.
    pub locked_until: Option<DateTime<Utc>>,
    /// When it happened.
    pub occurred_at: Option<DateTime<Utc>>,
    /// When it was written or, delayed, is due, by the database's clock.
    pub enqueued_at: Option<DateTime<Utc>>,
    /// When the broker had it.
    pub published_at: Option<DateTime<Utc>>,
    /// The event of its key that it waits for. Only from [`show`](crate::admin::Admin::show).
    pub waits_for: Option<String>,
    /// The caller's headers and ours. Only from [`show`](crate::admin::Admin::show); empty if they cannot be read.
    pub headers: HeaderMap,
    /// The body. Only from [`show`](crate::admin::Admin::show), and only if it was asked for.
    pub payload: Option<String>,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("event_id", &self.event_id)
            .field("event_type", &self.event_type)
            .field("aggregate_type", &self.aggregate_type)
            .field("aggregate_id", &self.aggregate_id)
            .field("sequence", &self.sequence)
            .field("status", &self.status)
            .field("attempt_count", &self.attempt_count)
            .field("last_error", &self.last_error)
            .field("payload_bytes", &self.payload_bytes)
            .finish_non_exhaustive()
    }
}

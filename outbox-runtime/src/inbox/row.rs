//! Rows of the inbox and of the parked messages as the consumer handles them.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::event::envelope::Fingerprint;

/// The dedup record of one delivery.
#[derive(Debug, Clone)]
pub struct InboxEntry {
    /// The consumer.
    pub consumer: String,
    /// The event.
    pub event_id: String,
    /// When the producer wrote it; `None` for a foreign producer: then it is never older than the window.
    pub enqueued_at: Option<DateTime<Utc>>,
    /// The version of the event's own fields.
    pub version: i32,
    /// The hash of the event's own fields.
    pub fingerprint: Fingerprint,
}

/// What a run's dedup record was written by: tells later whether the handler has ended the transaction by itself (C1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The transaction's number; on SQLite the dedup record's row number.
    pub transaction: i64,
    /// The server process; on SQLite the number of the run.
    pub session: i32,
}

/// What a consumer decided about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Its effects are committed.
    Processed,
    /// It is parked and will run again.
    Retrying,
    /// It is parked for a person.
    Dead,
}

impl Disposition {
    /// The opposite of the text in the table.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "Processed" => Self::Processed,
            "Retrying" => Self::Retrying,
            "Dead" => Self::Dead,
            _ => return None,
        })
    }
}

/// Why no inbox row was inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxRecord {
    /// The event was decided on before, in the same form.
    Known(Disposition),
    /// The id belongs to an event with other fields.
    Reused,
    /// It is older than the dedup window, so nobody can know (S7).
    TooOld,
    /// Neither: the row vanished between the two statements; run it again.
    Gone,
}

/// Why a message is parked: data for a person and for counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The handler failed; another attempt follows.
    HandlerFailed,
    /// The handler failed as often as it may.
    AttemptsSpent,
    /// The handler refused the message, or its error said that no attempt will succeed.
    Rejected,
    /// The handler ended the transaction by itself: nobody knows what of it is done.
    EndedTransaction,
    /// The body does not fit the event type.
    Undecodable,
    /// The body is longer than the limit.
    Oversize,
    /// No id anywhere.
    NoId,
    /// The ids in header, property and body disagree.
    IdsDisagree,
    /// The id is empty, longer than 64 bytes or has a control character.
    BadId,
    /// No handler of this consumer takes this event.
    UnknownEvent,
    /// The event's version is newer than the handler knows.
    UnknownVersion,
    /// Another event with this id was seen before.
    IdReused,
    /// It is older than the dedup window.
    OlderThanWindow,
    /// The broker delivered it too often without an ack.
    DeliveryLimit,
    /// It is to run again, and its dedup record says otherwise: only one of the two rows was turned by hand.
    RecordDisagrees,
}

impl Reason {
    /// The text in the table and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HandlerFailed => "handler failed",
            Self::AttemptsSpent => "attempts spent",
            Self::Rejected => "rejected by the handler",
            Self::EndedTransaction => "the handler ended the transaction",
            Self::Undecodable => "undecodable",
            Self::Oversize => "oversize",
            Self::NoId => "no id",
            Self::IdsDisagree => "ids disagree",
            Self::BadId => "bad id",
            Self::UnknownEvent => "unknown event",
            Self::UnknownVersion => "unknown version",
            Self::IdReused => "id reused",
            Self::OlderThanWindow => "older than the dedup window",
            Self::DeliveryLimit => "delivery limit",
            Self::RecordDisagrees => "dedup record disagrees",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a parked message will run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParkedStatus {
    /// It will, after this time.
    Retrying {
        /// How long to wait.
        after: Duration,
    },
    /// It waits for a person.
    Dead,
}

/// A message to park.
#[derive(Debug, Clone)]
pub struct NewParked {
    /// The consumer.
    pub consumer: String,
    /// The dedup record to write with it; `None` for a message without a usable id, or one whose id belongs to another event.
    pub inbox: Option<InboxEntry>,
    /// The run whose handler ended the transaction by itself: a dedup record that it made durable becomes Dead.
    pub ended: Option<Stamp>,
    /// The id, if there is one, even if it is not this message's own.
    pub event_id: Option<String>,
    /// The event's name, if it says one.
    pub event_type: Option<String>,
    /// The body as it came.
    pub body: Vec<u8>,
    /// Properties and headers, as JSON.
    pub properties: String,
    /// Whether it will run again.
    pub status: ParkedStatus,
    /// Why.
    pub reason: Reason,
    /// The error chain, bounded.
    pub error: Option<String>,
    /// Runs so far.
    pub attempts: i32,
    /// Whether it must run alone.
    pub isolated: bool,
    /// When the producer wrote it.
    pub enqueued_at: Option<DateTime<Utc>>,
}

/// A claim of parked messages.
#[derive(Debug, Clone)]
pub struct ParkedClaim {
    /// The consumer.
    pub consumer: String,
    /// `instance:ulid`.
    pub claim_id: String,
    /// At most so many.
    pub limit: i64,
    /// How long the claim holds until the run's own transaction takes the row.
    pub lease: Duration,
    /// Those that must run alone, or the others.
    pub alone: bool,
}

/// A claimed parked message.
#[derive(Debug, Clone)]
pub struct ParkedRow {
    /// Its key.
    pub parked_id: i64,
    /// The event's id.
    pub event_id: Option<String>,
    /// The body.
    pub body: Vec<u8>,
    /// Properties and headers, as JSON.
    pub properties: String,
    /// The number of this attempt.
    pub attempts: i32,
    /// Whether it must run alone.
    pub isolated: bool,
}

/// What becomes of a parked message after a run that did not commit.
#[derive(Debug, Clone)]
pub enum Reparked {
    /// Another time.
    Again {
        /// How long to wait.
        after: Duration,
        /// Why.
        error: String,
    },
    /// Never again.
    Dead {
        /// Why, as data.
        reason: Reason,
        /// Why.
        error: String,
    },
    /// As before the claim, its attempt taken back: the runtime stops, the database was lost, or this build does not know the event.
    PutBack {
        /// How long to wait at least.
        after: Duration,
    },
}

/// Figures of parked messages. Counts stop at a bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParkedStats {
    /// Messages that will run again.
    pub retrying: u64,
    /// Messages that wait for a person.
    pub dead: u64,
}

/// A wish to advance a consumer's floor.
#[derive(Debug, Clone, Copy)]
pub struct FloorMove {
    /// Inbox rows are kept so long.
    pub keep: Duration,
    /// How long an announced floor stands before rows below it are deleted.
    pub grace: Duration,
    /// Whether the floor may advance now; deleting below an old one is always allowed.
    pub advance: bool,
}

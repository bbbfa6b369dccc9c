//! How many events there are, of which status and name.

use std::fmt;
use std::time::Duration;

use crate::admin::{Admin, AdminError, EventStatus};
use crate::store::Store;

/// Where counts stop unless another bound is asked for.
const BOUND: u32 = 10_000;

/// A number of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Count {
    /// How many were counted.
    pub events: u64,
    /// Whether the count stopped at its bound: there are at least so many.
    pub at_least: bool,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.events, if self.at_least { "+" } else { "" })
    }
}

/// Events of one status and name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeCount {
    /// The status.
    pub status: EventStatus,
    /// The event's name.
    pub event_type: String,
    /// How many.
    pub count: Count,
}

/// What is in the outbox. See [`Admin::counts`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Counts {
    /// By status and name. Of the Published ones only the latest are counted, up to the bound.
    pub by_type: Vec<TypeCount>,
    /// Pending and due now.
    pub due: Count,
    /// Pending without an error, for a later time.
    pub delayed: Count,
    /// Ordered events that were found behind another one of their key.
    pub blocked: Count,
    /// Not Failed, and with an error: they are tried again by themselves.
    pub held: Count,
    /// With a relay whose lease has run out: whoever sweeps next puts them back.
    pub expired: Count,
    /// How long the oldest event has waited that should be published by now.
    pub oldest_unpublished: Option<Duration>,
    /// All published rows, as the statistics of PostgreSQL estimate it; `None` before the first ANALYZE, and on SQLite, which keeps none.
    pub published_estimate: Option<u64>,
    failed_at_least: bool,
    bound: u64,
}

impl Counts {
    /// All events of that status.
    pub fn status(&self, status: EventStatus) -> Count {
        let events = self.by_type.iter().filter(|of| of.status == status).map(|of| of.count.events).sum();
        let at_least = if status == EventStatus::Failed { self.failed_at_least } else { events >= self.bound };
        Count { events, at_least }
    }
}

/// The same as a database answers it.
#[derive(Debug, Clone, Default)]
pub struct RawCounts {
    pub(crate) by_type: Vec<(EventStatus, String, u64)>,
    pub(crate) due: u64,
    /// Read of those that are for a later time, and how many of them have no error.
    pub(crate) later: u64,
    pub(crate) delayed: u64,
    pub(crate) blocked: u64,
    /// Read of those with an error, and how many of them are not Failed.
    pub(crate) with_error: u64,
    pub(crate) held: u64,
    pub(crate) expired: u64,
    pub(crate) oldest: Option<Duration>,
    pub(crate) published_estimate: Option<u64>,
}

impl RawCounts {
    fn counts(self, bound: u64) -> Counts {
        let of = |events: u64| Count { events, at_least: events >= bound };
        let some_of = |events: u64, read: u64| Count { events, at_least: read >= bound };
        let mut counts = Counts {
            due: of(self.due),
            delayed: some_of(self.delayed, self.later),
            blocked: of(self.blocked),
            held: some_of(self.held, self.with_error),
            expired: of(self.expired),
            oldest_unpublished: self.oldest,
            published_estimate: self.published_estimate,
            failed_at_least: self.with_error >= bound,
            bound,
            by_type: Vec::new(),
        };
        let by_type = self.by_type.into_iter();
        counts.by_type = by_type
            .map(|(status, event_type, events)| TypeCount {
                status,
                event_type,
                count: Count { events, at_least: false },
            })
            .collect();
        for at in 0..counts.by_type.len() {
            counts.by_type[at].count.at_least = counts.status(counts.by_type[at].status).at_least;
        }
        counts.by_type.sort_by(|one, other| (one.status, &one.event_type).cmp(&(other.status, &other.event_type)));
        counts
    }
}

impl<DB: Store> Admin<DB> {
    /// Counts, each up to 10,000: see [`counts_up_to`](Self::counts_up_to).
    ///
    /// # Errors
    /// [`AdminError::Tables`], [`AdminError::Database`].
    ///
    /// # Cancel safety
    /// It can be dropped at any time.
    pub async fn counts(&self) -> Result<Counts, AdminError> {
        self.counts_up_to(BOUND).await
    }

    /// Counts up to a bound of your own (at least 1). Each figure reads at most so many rows of a partial index, however many rows the table has.
    ///
    /// # Errors
    /// [`AdminError::Tables`], [`AdminError::Database`].
    ///
    /// # Cancel safety
    /// It can be dropped at any time.
    pub async fn counts_up_to(&self, bound: u32) -> Result<Counts, AdminError> {
        let bound = bound.max(1);
        let raw = self.read("counting events", async |connection| DB::admin_counts(connection, i64::from(bound)).await);
        Ok(raw.await?.counts(u64::from(bound)))
    }
}

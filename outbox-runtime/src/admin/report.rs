//! What became of each row.

use chrono::{DateTime, Utc};

use crate::admin::filter::time;
use crate::admin::{Action, Cursor, EventStatus};

/// What an action did, row by row.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Each row once, in the order in which they were taken.
    pub rows: Vec<ReportRow>,
    /// Where to go on, if more rows may fit the filter than the call was allowed to take.
    pub next: Option<Cursor>,
}

impl Report {
    /// How many rows were changed.
    pub fn done(&self) -> usize {
        self.rows.iter().filter(|row| row.outcome == RowOutcome::Done).count()
    }
}

/// What became of one row.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReportRow {
    /// The event's id.
    pub event_id: String,
    /// What became of it.
    pub outcome: RowOutcome,
    /// The event's name, if it was found.
    pub event_type: Option<String>,
    /// What it told of, if it was found: aggregate type and id.
    pub aggregate: Option<(String, String)>,
    /// What it was before.
    pub was: Option<EventStatus>,
}

/// What became of one row.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RowOutcome {
    /// It was done, durably.
    Done,
    /// A relay has it at the moment, or somebody holds its lock. Try again later.
    #[non_exhaustive]
    Busy {
        /// The relay's claim; `None` if it was locked or changed while the action ran.
        locked_by: Option<String>,
        /// When that claim runs out unless it is renewed.
        until: Option<DateTime<Utc>>,
    },
    /// The action is not for events of this status.
    #[non_exhaustive]
    WrongStatus {
        /// Its status.
        status: EventStatus,
    },
    /// It has no order: nothing waits for it.
    NotOrdered,
    /// It is not in the outbox (any more).
    NotFound,
}

/// A row as the action's own statement saw it.
#[derive(Debug, Clone)]
pub struct Found {
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    pub(crate) aggregate_type: String,
    pub(crate) aggregate_id: String,
    pub(crate) ordered: bool,
    pub(crate) status: EventStatus,
    /// Whether a lease on it holds.
    pub(crate) leased: bool,
    pub(crate) locked_by: Option<String>,
    pub(crate) locked_until: Option<i64>,
    pub(crate) done: bool,
}

impl Found {
    pub(super) fn row(self, action: &Action) -> ReportRow {
        let outcome = if self.done {
            RowOutcome::Done
        } else if self.leased {
            RowOutcome::Busy { locked_by: self.locked_by, until: self.locked_until.and_then(time) }
        } else if !action.is_for(self.status) {
            RowOutcome::WrongStatus { status: self.status }
        } else if action.needs_order() && !self.ordered {
            RowOutcome::NotOrdered
        } else {
            RowOutcome::Busy { locked_by: None, until: None }
        };
        ReportRow {
            event_id: self.event_id,
            outcome,
            event_type: Some(self.event_type),
            aggregate: Some((self.aggregate_type, self.aggregate_id)),
            was: Some(self.status),
        }
    }
}

//! Which events an action is for.

use crate::admin::show::id_problem;
use crate::admin::{Action, Cursor, Filter, FilterProblem};
use crate::event::EventId;

/// Rows of one call unless the selection says otherwise, and the most that it can say.
const ROWS: usize = 10_000;
const MOST: usize = 100_000;
/// Problems of single ids that are told.
const TOLD: usize = 10;

/// Which events an action is for: these, or those that fit a filter.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a selection does nothing until it is given to an action of `Admin`"]
pub struct Selection {
    pub(super) what: What,
    pub(super) limit: usize,
    pub(super) after: Option<Cursor>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    Ids(Vec<String>),
    Filter(Filter),
}

impl Selection {
    /// These events (1 to 100,000).
    pub fn ids<S: Into<String>>(ids: impl IntoIterator<Item = S>) -> Self {
        let mut ids: Vec<String> = ids.into_iter().map(Into::into).collect();
        // The order in which rows are locked.
        ids.sort_unstable();
        ids.dedup();
        Self { what: What::Ids(ids), limit: MOST, after: None }
    }

    /// The events that fit; at most 10,000 in one call. A filter without any condition is refused.
    pub fn of(filter: Filter) -> Self {
        Self { what: What::Filter(filter), limit: ROWS, after: None }
    }

    /// At most so many events in one call (1 to 100,000).
    pub fn limit(mut self, events: usize) -> Self {
        self.limit = events;
        self
    }

    /// Goes on after what an earlier call looked at, with the same filter.
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    pub(super) fn problems(&self, action: &Action) -> Vec<FilterProblem> {
        let mut problems = match &self.what {
            What::Ids(ids) => {
                let mut problems: Vec<_> = ids.iter().filter_map(|id| id_problem(id)).take(TOLD).collect();
                if ids.is_empty() || ids.len() > MOST {
                    problems.push(FilterProblem::Size { what: "event ids", asked: ids.len(), limit: MOST });
                }
                if self.after.is_some() {
                    problems.push(FilterProblem::Cursor);
                }
                problems
            }
            What::Filter(filter) => {
                let mut problems = filter.problems();
                if filter.is_empty() {
                    problems.push(FilterProblem::Everything { action: action.name() });
                }
                let not_for = filter.statuses.iter().filter(|status| !action.is_for(**status));
                problems.extend(
                    not_for.map(|status| FilterProblem::EventStatus { action: action.name(), status: *status }),
                );
                problems
            }
        };
        if self.limit == 0 || self.limit > MOST {
            problems.push(FilterProblem::Size { what: "events of a call", asked: self.limit, limit: MOST });
        }
        problems
    }
}

impl From<Filter> for Selection {
    fn from(filter: Filter) -> Self {
        Self::of(filter)
    }
}

impl From<EventId> for Selection {
    fn from(id: EventId) -> Self {
        Self::ids([id])
    }
}

impl From<&EventId> for Selection {
    fn from(id: &EventId) -> Self {
        Self::ids([id.as_str()])
    }
}

impl From<&str> for Selection {
    fn from(id: &str) -> Self {
        Self::ids([id])
    }
}

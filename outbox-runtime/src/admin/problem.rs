//! What is wrong with a filter, a page or a selection.

use std::fmt;

use crate::admin::EventStatus;
use crate::error::shown;

/// One thing that is wrong with what was asked for. A call reports all of them at once, before anything is sent to the database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterProblem {
    /// A text is empty, too long, or has a NUL.
    Text {
        /// Which one.
        what: &'static str,
        /// Its beginning.
        value: String,
        /// The most bytes that it may have.
        limit: usize,
    },
    /// A time range ends before it begins.
    EmptyRange {
        /// Which one.
        what: &'static str,
    },
    /// A time is outside the years 1 to 9999.
    Time {
        /// Which one.
        what: &'static str,
    },
    /// Published events have no error text.
    ErrorOfPublished,
    /// Only published events have a time of publishing.
    PublishedRange {
        /// The status that was asked for.
        status: EventStatus,
    },
    /// The action is not for events of that status.
    EventStatus {
        /// The action.
        action: &'static str,
        /// The status that was asked for.
        status: EventStatus,
    },
    /// A filter without any condition, given to something that changes events: it would change all of them.
    Everything {
        /// The action.
        action: &'static str,
    },
    /// Too few or too many rows were asked for.
    Size {
        /// Of what.
        what: &'static str,
        /// How many were asked for.
        asked: usize,
        /// The most that there may be.
        limit: usize,
    },
    /// A cursor that another filter, or nobody, has given out.
    Cursor,
}

impl fmt::Display for FilterProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { what, value, limit } => {
                write!(f, "the {what} {} is empty, longer than {limit} bytes, or has a NUL", shown(value))
            }
            Self::EmptyRange { what } => write!(f, "the range of {what} ends before it begins"),
            Self::Time { what } => write!(f, "a time of {what} is outside the years 1 to 9999"),
            Self::ErrorOfPublished => {
                f.write_str("published events have no error text: leave off the status Published or the text")
            }
            Self::PublishedRange { status } => {
                write!(f, "events that are {status} have no time of publishing: leave off the range or the status")
            }
            Self::EventStatus { action, status } => write!(f, "`{action}` is not for events that are {status}"),
            Self::Everything { action } => {
                write!(
                    f,
                    "the filter has no condition, and `{action}` would change every event: give it a status, a type, a time or ids"
                )
            }
            Self::Size { what, asked, limit } => write!(f, "{asked} {what}: use 1 to {limit}"),
            Self::Cursor => f.write_str("the cursor is not one that this call gave out with this filter"),
        }
    }
}

impl std::error::Error for FilterProblem {}

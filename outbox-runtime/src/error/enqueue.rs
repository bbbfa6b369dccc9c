//! Why an event was not written.

use std::fmt;

use crate::error::Problem;
use crate::event::{EventDescriptor, EventId};

/// Why `enqueue` did not write an event. Only [`Database`](Self::Database) leaves the caller's transaction aborted.
#[derive(Debug)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The event, its id, its key or its options do not fit. Nothing was sent to the database.
    Invalid {
        /// The event's name.
        event: &'static str,
        /// `file:line` of the event's type.
        place: String,
        /// All that is wrong.
        problems: Vec<Problem>,
    },
    /// Events with these ids are in the outbox already. Nothing of this call was written; the transaction is usable.
    Duplicate {
        /// The ids that were there before.
        ids: Vec<EventId>,
    },
    /// The database refused or was lost. The caller's transaction is aborted.
    Database(sqlx::Error),
}

impl EnqueueError {
    pub(crate) fn invalid(event: &EventDescriptor, problems: Vec<Problem>) -> Self {
        Self::Invalid { event: event.name, place: format!("{}:{}", event.file, event.line), problems }
    }

    /// Whether it is [`Duplicate`](Self::Duplicate).
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Duplicate { .. })
    }
}

impl fmt::Display for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { event, place, problems } => {
                write!(f, "the event `{event}` ({place}) cannot be enqueued: ")?;
                for (i, problem) in problems.iter().enumerate() {
                    write!(f, "{}{problem}", if i == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::Duplicate { ids } => {
                f.write_str("already in the outbox: ")?;
                for (i, id) in ids.iter().take(10).enumerate() {
                    write!(f, "{}{id}", if i == 0 { "" } else { ", " })?;
                }
                if ids.len() > 10 { write!(f, " and {} more", ids.len() - 10) } else { Ok(()) }
            }
            Self::Database(sqlx::Error::Database(error)) if error.code().as_deref() == Some("42P01") => f.write_str(
                "the table `outbox_messages` is missing in this database or schema: run `outbox::migrate(&pool)` or start the runtime once",
            ),
            Self::Database(_) => f.write_str("the database refused the event"),
        }
    }
}

impl std::error::Error for EnqueueError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            _ => None,
        }
    }
}

impl From<sqlx::Error> for EnqueueError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

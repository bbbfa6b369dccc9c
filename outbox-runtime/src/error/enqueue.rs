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
            Self::Database(error) => f.write_str(refused(error)),
        }
    }
}

/// What a person can do about it. SQLite has no code of its own for a missing table, and one language.
fn refused(error: &sqlx::Error) -> &'static str {
    let error = error.as_database_error();
    let said = |text| error.is_some_and(|error| error.message().starts_with(text));
    match error.and_then(sqlx::error::DatabaseError::code).as_deref() {
        Some("42P01") => MISSING_TABLE,
        Some("42703") => OLD_TABLES,
        Some("1") if said("no such table: outbox_messages") => MISSING_TABLE,
        Some("1") if said("table outbox_messages has no column") => OLD_TABLES,
        // SQLITE_BUSY and SQLITE_BUSY_SNAPSHOT.
        Some("5" | "517") => {
            "somebody else has written since this transaction began, or is writing: begin it with `outbox::begin(&pool)`, which waits for its turn"
        }
        _ => "the database refused the event",
    }
}

const MISSING_TABLE: &str = "a table of `outbox` (`outbox_messages` and its neighbours) is missing in this database or schema: run `outbox::migrate(&pool)` or start the runtime once";
const OLD_TABLES: &str =
    "the tables in this database are older than this build: run `outbox::migrate(&pool)` or start the runtime once";

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

//! What a database says, in words that do not depend on which one it is.

use std::time::Duration;

/// What an error says about the database, beside the statement that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Two transactions got into each other's way; the same again will do.
    Conflict,
    /// The database is lost, full, starting, stopping or read-only.
    Unavailable,
    /// The server ended a transaction that idled too long: the handler's own doing.
    IdleInTransaction,
}

/// Why a run's transaction was not committed.
#[derive(Debug)]
pub enum Refused {
    /// A statement in it failed and its error was ignored: the database had given the transaction up.
    Aborted,
    /// It is not the transaction that the run began: the handler ended that one by itself.
    Ended,
    /// The database said no, or said nothing.
    Database(sqlx::Error),
}

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

/// Whether the database accepts writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writable {
    /// It does.
    Yes,
    /// It is a standby or set to read-only.
    ReadOnly,
}

/// What keeps the server from clearing out rows that nobody needs any more, and how many of them lie in the outbox.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Vacuum {
    /// How long the oldest transaction lasts that may still look at them.
    pub oldest_snapshot: Duration,
    /// Dead rows of the outbox, as far as the server has counted.
    pub dead_rows: u64,
}

/// What stands between a connection and a session of the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pooling {
    /// Nothing, or nothing that shows: a connection keeps its session.
    Sessions,
    /// A pooler that gives a session to another connection after each transaction. Prepared statements survive it.
    Transactions,
    /// The same, and it cannot be worked with: why.
    Unusable(String),
}

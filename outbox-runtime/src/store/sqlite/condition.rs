//! What an error says about the database, by its result code, never by its text.

use std::error::Error;

use sqlx::SqliteConnection;
use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteError;

use crate::store::sqlite::sql::now;
use crate::store::{Condition, Writable, chain};

const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const NOMEM: i32 = 7;
const READONLY: i32 = 8;
const IOERR: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const PROTOCOL: i32 = 15;
const NOTADB: i32 = 26;

/// Looks for a result code, or a lost connection, anywhere in the chain.
pub(super) fn condition(error: &(dyn Error + 'static)) -> Option<Condition> {
    chain::condition::<SqliteError>(error, of_code)
}

/// The primary result code: the lower byte of the extended one.
pub(super) fn primary(code: Option<&str>) -> Option<i32> {
    Some(code?.parse::<i32>().ok()? & 0xff)
}

fn of_code(code: Option<&str>) -> Option<Condition> {
    match primary(code)? {
        BUSY | LOCKED => Some(Condition::Conflict),
        NOMEM | READONLY | IOERR | CORRUPT | FULL | CANTOPEN | PROTOCOL | NOTADB => Some(Condition::Unavailable),
        _ => None,
    }
}

/// A wrong path, or a file that is what it is. One that is locked, or on a full disk, may be free a moment later.
pub(super) fn hopeless(code: Option<&str>) -> bool {
    matches!(primary(code), Some(READONLY | CANTOPEN | NOTADB | CORRUPT))
}

/// SQLite has no code of its own for a missing table or column, and one language.
pub(super) fn lacks_tables(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| {
        let said = error.message();
        ["no such table: outbox_messages", "no such column: ", "no such index: outbox_messages"]
            .iter()
            .any(|start| said.starts_with(start))
    })
}

pub(super) fn cure(code: Option<&str>) -> &'static str {
    match primary(code) {
        Some(BUSY | LOCKED) => {
            "another process holds the lock on the file: end it, or the transaction that it has left open (a shell, a backup)"
        }
        Some(READONLY) => {
            "make the file and its directory writable for this user, and take `mode=ro` or `immutable` out of the URL"
        }
        Some(FULL) => "the disk is full: make room (the `-wal` file beside the database needs some too)",
        Some(CANTOPEN) => {
            "no such directory or file: correct the path; add `?mode=rwc` to the URL to create the file, and see that this user may write in its directory"
        }
        Some(NOTADB) => "not a SQLite database, or an encrypted one: correct the path in the URL",
        Some(CORRUPT) => {
            "the file is damaged: stop everything, see `PRAGMA integrity_check`, and restore from a backup"
        }
        Some(IOERR) => "the disk or its file system fails: see the system's log; SQLite needs a local file system",
        Some(NOMEM) => "the process is out of memory",
        Some(PROTOCOL) => "the file cannot be locked: SQLite needs a local file system, not a network one",
        _ => "see the text of the error; `sqlite3 file.db 'PRAGMA integrity_check'` tells whether the file is sound",
    }
}

/// A real write: a full disk and a read-only file show in no other way.
const PROBE: &str = concat!(
    "INSERT INTO outbox_settings (key, value) VALUES ('probe', ",
    now!(),
    ") ON CONFLICT (key) DO UPDATE SET value = excluded.value"
);

pub(super) async fn probe(connection: &mut SqliteConnection) -> Result<Writable, sqlx::Error> {
    match sqlx::query(PROBE).execute(connection).await {
        Ok(_) => Ok(Writable::Yes),
        Err(error) if primary(error.as_database_error().and_then(DatabaseError::code).as_deref()) == Some(READONLY) => {
            Ok(Writable::ReadOnly)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_go_by_the_primary_code() {
        let table = [
            ("5", Some(Condition::Conflict)),
            ("517", Some(Condition::Conflict)),
            ("262", Some(Condition::Conflict)),
            ("8", Some(Condition::Unavailable)),
            ("1032", Some(Condition::Unavailable)),
            ("13", Some(Condition::Unavailable)),
            ("3338", Some(Condition::Unavailable)),
            ("26", Some(Condition::Unavailable)),
            ("1", None),
            ("787", None),
            ("2067", None),
            ("531", None),
        ];
        for (code, want) in table {
            assert_eq!(of_code(Some(code)), want, "{code}");
        }
        assert_eq!(of_code(None), None);
        assert_eq!(condition(&sqlx::Error::PoolTimedOut), Some(Condition::Unavailable));
        assert_eq!(condition(&sqlx::Error::WorkerCrashed), Some(Condition::Unavailable));
        assert_eq!(condition(&sqlx::Error::RowNotFound), None);
    }
}

//! What the statements share: the clock, times, texts that may be anything, and write transactions that may already be open.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row, Sqlite, SqliteConnection, Transaction};

/// The database's clock, in microseconds since 1970. It stands still while a statement runs.
macro_rules! now {
    () => {
        "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
    };
}
pub(crate) use now;

/// 0001-01-01 and 10000-01-01: other times have no form that consumers can read.
const YEARS: std::ops::Range<i64> = -62_135_596_800_000_000..253_402_300_800_000_000;

/// A time span for arithmetic in SQL: bounded, so that a sum with a time never overflows (SQLite would go on with a float, which a strict
/// table refuses).
pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

/// A number of rows or bytes as a bound.
pub(crate) fn bound(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A column's time, unless it lies outside the years 1 to 9999: rows written by hand have such.
pub(crate) fn time(micros: i64) -> Option<DateTime<Utc>> {
    YEARS.contains(&micros).then(|| DateTime::from_timestamp_micros(micros)).flatten()
}

/// How long ago that was.
pub(crate) fn age(now: i64, since: i64) -> Duration {
    Duration::from_micros(u64::try_from(now.saturating_sub(since)).unwrap_or(0))
}

/// A text column. SQLite does not check that it is UTF-8, and one row that cannot be decoded would stop everybody who reads the table.
pub(crate) fn text(row: &SqliteRow, column: &str) -> Result<String, sqlx::Error> {
    Ok(String::from_utf8_lossy(row.try_get(column)?).into_owned())
}

/// The same for one that may be NULL.
pub(crate) fn optional_text(row: &SqliteRow, column: &str) -> Result<Option<String>, sqlx::Error> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// Values as one argument for `json_each`: a statement of this kind does not depend on how many there are.
pub(crate) fn array<T: serde::Serialize>(values: &[T]) -> Result<String, sqlx::Error> {
    serde_json::to_string(values).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}

/// Several statements that are done together or not at all: a transaction of their own, or the one that is open already.
pub(crate) enum Together<'c> {
    Own(Transaction<'c, Sqlite>),
    Open(&'c mut SqliteConnection),
}

impl<'c> Together<'c> {
    /// `IMMEDIATE`: a transaction that reads first and writes then may find that it cannot.
    pub(crate) async fn begin(connection: &'c mut SqliteConnection) -> Result<Self, sqlx::Error> {
        if connection.is_in_transaction() {
            Ok(Self::Open(connection))
        } else {
            Ok(Self::Own(connection.begin_with("BEGIN IMMEDIATE").await?))
        }
    }

    /// Commits if the transaction is its own.
    pub(crate) async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Own(tx) => tx.commit().await,
            Self::Open(_) => Ok(()),
        }
    }

    /// Takes back what was done, which in a transaction that was open must be nothing.
    pub(crate) async fn rollback(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Own(tx) => tx.rollback().await,
            Self::Open(_) => Ok(()),
        }
    }
}

impl Deref for Together<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        match self {
            Self::Own(tx) => tx,
            Self::Open(connection) => connection,
        }
    }
}

impl DerefMut for Together<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        match self {
            Self::Own(tx) => tx,
            Self::Open(connection) => connection,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_that_have_a_form() {
        assert_eq!(time(0), Some(DateTime::UNIX_EPOCH));
        assert_eq!(time(YEARS.start).map(|time| time.to_rfc3339()).as_deref(), Some("0001-01-01T00:00:00+00:00"));
        assert_eq!(time(YEARS.start - 1), None);
        assert_eq!(
            time(YEARS.end - 1).map(|time| time.to_rfc3339()).as_deref(),
            Some("9999-12-31T23:59:59.999999+00:00")
        );
        assert_eq!(time(YEARS.end), None);
        assert_eq!(age(i64::MAX, i64::MIN), Duration::from_micros(i64::MAX as u64));
        assert_eq!(age(0, 1), Duration::ZERO);
    }
}

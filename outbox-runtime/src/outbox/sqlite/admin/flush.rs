//! An action is on the disk before it is reported, also on a pool of the service's that does not wait for the disk.

use sqlx::{AssertSqlSafe, SqliteConnection};

const FULL: i64 = 2;

/// Turns the flush on for this connection; what it was before, if it was less.
pub(crate) async fn flush_from_here(connection: &mut SqliteConnection) -> Result<Option<i64>, sqlx::Error> {
    let before: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *connection).await?;
    if before >= FULL {
        return Ok(None);
    }
    sqlx::raw_sql("PRAGMA synchronous = FULL").execute(connection).await?;
    Ok(Some(before))
}

/// Sets it back.
pub(crate) async fn flush_as_before(connection: &mut SqliteConnection, before: Option<i64>) -> Result<(), sqlx::Error> {
    if let Some(before) = before {
        sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA synchronous = {before}"))).execute(connection).await?;
    }
    Ok(())
}

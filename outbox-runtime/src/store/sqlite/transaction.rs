//! Begin, and commit with proof (C1).

use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, Connection, Sqlite, SqliteConnection, Transaction};

use crate::inbox::Stamp;
use crate::store::Refused;
use crate::store::sqlite::condition::primary;
use crate::store::sqlite::run::{self, FirstEnd};

/// The record of that run, which no other run has written: rows and their numbers are used again, numbers of runs are not.
const PROOF: &str = "SELECT EXISTS (SELECT 1 FROM inbox_messages WHERE rowid = ?1 AND run = ?2)";

/// The primary code of `BEGIN` inside of a transaction, and of `ROLLBACK` outside of one.
const ERROR: i32 = 1;

/// `IMMEDIATE`: a handler that reads first and writes then would otherwise find that somebody wrote in between, and could only start again.
pub(super) async fn begin(connection: &mut SqliteConnection) -> Result<Transaction<'_, Sqlite>, sqlx::Error> {
    connection.begin_with("BEGIN IMMEDIATE").await
}

/// The proof before the events that a handler collected are written: outside its transaction they would be committed at once, if a handler
/// has taken the hooks off its connection.
pub(super) async fn prove(connection: &mut SqliteConnection, stamp: Stamp) -> Result<(), Refused> {
    record_is_there(connection, stamp).await?;
    if in_transaction(connection).await? { Ok(()) } else { Err(Refused::Ended) }
}

pub(super) async fn commit(mut tx: Transaction<'_, Sqlite>, stamp: Stamp) -> Result<(), Refused> {
    run::over(stamp.session);
    // Not sqlx's commit: after a handler that leaked a transaction inside of this one, it would only end that one and say that all is well.
    if let Err(error) = sqlx::raw_sql(AssertSqlSafe(commit_sql(stamp))).execute(&mut *tx).await {
        record_is_there(&mut tx, stamp).await?;
        return Err(Refused::Database(error));
    }
    // sqlx counts open transactions by the calls that it sees; the trailing BEGIN is what this one ends. It fails if the count is still off: then
    // the connection must be closed.
    tx.rollback().await?;
    Ok(())
}

/// Proof and commit travel together. Without the record the sum overflows, and an error ends the message before its `COMMIT`.
fn commit_sql(stamp: Stamp) -> String {
    format!(
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM inbox_messages WHERE rowid = {} AND run = {}) THEN 1 ELSE abs(-9223372036854775807 - 1) END; \
         COMMIT; BEGIN",
        stamp.transaction, stamp.session
    )
}

/// Leaves the connection as it was, whoever has ended the transaction.
pub(super) async fn rollback(mut tx: Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    run::unwatch(&mut tx).await?;
    match sqlx::raw_sql("ROLLBACK").execute(&mut *tx).await {
        Ok(_) => {}
        Err(error) if code(&error) == Some(ERROR) => {}
        Err(error) => return Err(error),
    }
    settle(tx).await
}

/// sqlx counts open transactions by the calls that it sees, and did not see this one end. The `BEGIN` takes no lock.
async fn settle(mut tx: Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("BEGIN").execute(&mut *tx).await?;
    // Fails if the count is still off: then the connection must be closed.
    tx.rollback().await
}

async fn record_is_there(connection: &mut SqliteConnection, stamp: Stamp) -> Result<(), Refused> {
    let there: bool =
        sqlx::query_scalar(PROOF).bind(stamp.transaction).bind(stamp.session).fetch_one(&mut *connection).await?;
    if there {
        return Ok(());
    }
    // SQLite ends a transaction by itself, after some errors; it begins none.
    let refused = match run::first_end(stamp.session) {
        FirstEnd::Rollback if !in_transaction(connection).await? => Refused::Aborted,
        FirstEnd::Rollback | FirstEnd::Commit | FirstEnd::None => Refused::Ended,
    };
    Err(refused)
}

/// Asks SQLite itself: sqlx counts calls.
async fn in_transaction(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    match sqlx::raw_sql("BEGIN").execute(&mut *connection).await {
        Ok(_) => {
            sqlx::raw_sql("ROLLBACK").execute(connection).await?;
            Ok(false)
        }
        Err(error) if code(&error) == Some(ERROR) => Ok(true),
        Err(error) => Err(error),
    }
}

fn code(error: &sqlx::Error) -> Option<i32> {
    primary(error.as_database_error().and_then(DatabaseError::code).as_deref())
}

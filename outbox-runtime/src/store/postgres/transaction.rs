//! Begin and commit with proof (C1).

use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Transaction};

use crate::inbox::Stamp;
use crate::store::Refused;

/// In an aborted transaction the division fails with 25P02; outside of one, or in another than the one that the run began, with 22012. So a
/// handler that swallowed a SQL error, or that ended the transaction by itself, cannot reach `COMMIT`, which the server would answer with a
/// silent rollback or commit without the dedup record. The three commands travel together; the trailing `BEGIN` is what sqlx's own queued
/// ROLLBACK ends.
fn commit_sql(stamp: Stamp) -> String {
    format!("{}; COMMIT; BEGIN", proof_sql(stamp))
}

fn proof_sql(stamp: Stamp) -> String {
    format!("SELECT 1 / (txid_current_if_assigned() IS NOT DISTINCT FROM {})::integer", stamp.transaction)
}

/// The proof alone, before the events that a handler collected are written: outside its transaction they would be committed at once.
pub(super) async fn prove(connection: &mut PgConnection, stamp: Stamp) -> Result<(), Refused> {
    sqlx::raw_sql(AssertSqlSafe(proof_sql(stamp))).execute(connection).await.map_err(refused)?;
    Ok(())
}

/// What the proof's error says.
fn refused(error: sqlx::Error) -> Refused {
    match error.as_database_error().and_then(DatabaseError::code).as_deref() {
        Some("25P02") => Refused::Aborted,
        Some("22012") => Refused::Ended,
        _ => Refused::Database(error),
    }
}

/// The session of a dropped run. Its server process may be in a statement that does not notice a closed socket, with the run's locks.
const END_SESSION: &str = "
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = $1 AND backend_xid::text::bigint = $2 & 4294967295 AND usename = current_user";

pub(super) async fn begin(connection: &mut PgConnection) -> Result<Transaction<'_, Postgres>, sqlx::Error> {
    connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await
}

pub(super) async fn commit(mut tx: Transaction<'_, Postgres>, stamp: Stamp) -> Result<(), Refused> {
    sqlx::raw_sql(AssertSqlSafe(commit_sql(stamp))).execute(&mut *tx).await.map_err(refused)?;
    // Dropping it queues the ROLLBACK of the empty transaction that the trailing BEGIN opened.
    drop(tx);
    Ok(())
}

pub(super) async fn end_session(connection: &mut PgConnection, stamp: Stamp) -> Result<(), sqlx::Error> {
    sqlx::query(END_SESSION).bind(stamp.session).bind(stamp.transaction).execute(connection).await?;
    Ok(())
}

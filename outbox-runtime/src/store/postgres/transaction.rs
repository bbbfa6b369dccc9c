//! Begin and commit with proof (C1).

use sqlx::{Connection, PgConnection, Postgres, Transaction};

/// `SAVEPOINT` fails in an aborted transaction and outside of one: a handler that swallowed a SQL error, or that ended the transaction by
/// itself, cannot reach `COMMIT`, which the server would answer with a silent rollback. The three commands travel together; the trailing
/// `BEGIN` is what sqlx's own queued ROLLBACK ends.
const COMMIT: &str = "SAVEPOINT outbox_commit; COMMIT; BEGIN";

pub(super) async fn begin(connection: &mut PgConnection) -> Result<Transaction<'_, Postgres>, sqlx::Error> {
    connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await
}

pub(super) async fn commit(mut tx: Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(COMMIT).execute(&mut *tx).await?;
    // Dropping it queues the ROLLBACK of the empty transaction that the trailing BEGIN opened.
    drop(tx);
    Ok(())
}

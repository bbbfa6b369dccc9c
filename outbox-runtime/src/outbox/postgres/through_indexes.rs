//! Transactions whose statements go through the indexes, whatever the statistics of the table say (they may be from when it was empty).
//!
//! Without these settings the server may read all rows of an index, and sort them, for the first hundred.

use sqlx::{Connection, PgConnection, Postgres, Transaction};

/// What cannot do without a sort is reckoned to cost so much then that the server would compile it, for half a second.
const SETTINGS: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; SET LOCAL jit = off";

/// To look: it sees one state of the table, changes nothing, and works on a standby.
pub(super) async fn look(connection: &mut PgConnection) -> Result<Transaction<'_, Postgres>, sqlx::Error> {
    begin(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
}

/// To change something.
pub(super) async fn change(connection: &mut PgConnection) -> Result<Transaction<'_, Postgres>, sqlx::Error> {
    begin(connection, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await
}

async fn begin<'c>(
    connection: &'c mut PgConnection,
    statement: &'static str,
) -> Result<Transaction<'c, Postgres>, sqlx::Error> {
    let mut tx = connection.begin_with(statement).await?;
    sqlx::raw_sql(SETTINGS).execute(&mut *tx).await?;
    Ok(tx)
}

//! What an earlier process had claimed: it is gone, so nobody waits for its leases.

use sqlx::{Connection, SqliteConnection};

use crate::store::sqlite::sql::now;

const OUTBOX: &str = concat!(
    "UPDATE outbox_messages SET status = 'Pending', locked_by = NULL, locked_until = NULL,
     next_attempt_at = min(next_attempt_at, ",
    now!(),
    ") WHERE status = 'Processing'"
);

/// The delivery stays counted: it may have been what ended the process (C3).
const QUEUES: &str =
    concat!("UPDATE queue_messages SET locked_by = NULL, available_at = ", now!(), " WHERE locked_by IS NOT NULL");

/// `locked_by` stays: it tells the claim that the last run came to no end, so that the next one runs alone (C3).
const PARKED: &str = concat!(
    "UPDATE parked_messages SET locked_until = ",
    now!(),
    " - 1 WHERE status = 'Retrying' AND locked_by IS NOT NULL"
);

const GENERATION: &str = "
INSERT INTO outbox_settings (key, value) VALUES ('generation', '1')
ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)";

/// Puts everything back that is claimed; only for the process that has just become the only one. Returns how many rows that were.
pub(crate) async fn recover(connection: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut rows = 0;
    for statement in [OUTBOX, QUEUES, PARKED] {
        rows += sqlx::query(statement).execute(&mut *tx).await?.rows_affected();
    }
    sqlx::query(GENERATION).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(rows)
}

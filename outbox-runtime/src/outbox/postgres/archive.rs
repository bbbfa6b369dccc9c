//! Moving published rows to the archive, and making the archive (S5).

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Transaction};

use crate::outbox::postgres::claim::millis;
use crate::outbox::postgres::through_indexes;
use crate::outbox::{ARCHIVE_COLUMNS, ArchiveState, ArchiveTable, moved_columns};

/// One statement: a row is in one of the two tables at every moment, and never in both. The flush is asked for: what was deleted here must be there.
fn move_sql(table: &ArchiveTable) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!(
        "
WITH flushed AS MATERIALIZED (
    SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END AS done
),
old AS MATERIALIZED (
    SELECT event_id FROM outbox_messages
    WHERE status = 'Published' AND published_at < now() - $1 * interval '1 millisecond'
    ORDER BY published_at, event_id LIMIT $2 FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM outbox_messages AS o USING old, flushed WHERE o.event_id = old.event_id
    RETURNING {}
)
INSERT INTO {} ({}, archived_at)
SELECT {}, clock_timestamp() FROM gone ORDER BY published_at, event_id",
        moved_columns!("o."),
        table.quoted(),
        moved_columns!(""),
        moved_columns!("")
    ))
}

/// No unique key: after a replay, or when an id is used again later, an event is archived twice.
fn create_sql(table: &ArchiveTable) -> String {
    format!(
        "
CREATE TABLE IF NOT EXISTS {} (
    event_id        text COLLATE \"C\" NOT NULL,
    aggregate_type  text NOT NULL,
    aggregate_id    text NOT NULL,
    sequence        bigint NULL,
    event_type      text NOT NULL,
    event_version   integer NOT NULL,
    exchange        text NOT NULL,
    routing_key     text NOT NULL,
    envelope        text NOT NULL,
    payload         json NOT NULL,
    payload_bytes   integer NOT NULL,
    headers         jsonb NOT NULL,
    occurred_at     timestamptz NOT NULL,
    enqueued_at     timestamptz NOT NULL,
    attempt_count   integer NOT NULL,
    unknown_count   integer NOT NULL,
    published_at    timestamptz NOT NULL,
    archived_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON {} (event_id)",
        table.quoted(),
        table.quoted()
    )
}

/// Together with the hash of the name. Two starts that create the same table at once would otherwise fail on the catalog.
const LOCK: i32 = 0x6f61_7263;

const COLUMNS: &str = "
SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped";

async fn begin(connection: &mut PgConnection) -> Result<Transaction<'_, Postgres>, sqlx::Error> {
    connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await
}

pub(crate) async fn archive_published(
    connection: &mut PgConnection,
    table: &ArchiveTable,
    after: Duration,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let mut tx = through_indexes::change(connection).await?;
    let done = sqlx::query(move_sql(table)).bind(millis(after)).bind(limit).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(done.rows_affected())
}

pub(crate) async fn prepare_archive(
    connection: &mut PgConnection,
    table: &ArchiveTable,
    create: bool,
) -> Result<ArchiveState, sqlx::Error> {
    if create && columns(connection, table).await?.is_empty() {
        let mut tx = begin(&mut *connection).await?;
        let lock = "SELECT pg_advisory_xact_lock($1, hashtext($2))";
        sqlx::query(lock).bind(LOCK).bind(table.quoted()).execute(&mut *tx).await?;
        // Whoever had the lock before may have made it.
        if columns(&mut tx, table).await?.is_empty() {
            sqlx::raw_sql(AssertSqlSafe(create_sql(table))).execute(&mut *tx).await?;
        }
        tx.commit().await?;
    }
    let known = columns(connection, table).await?;
    if known.is_empty() {
        return Ok(ArchiveState::MissingTable);
    }
    let missing: Vec<String> = ARCHIVE_COLUMNS
        .iter()
        .filter(|name| !known.iter().any(|k| k == *name))
        .map(|name| (*name).to_owned())
        .collect();
    if !missing.is_empty() {
        return Ok(ArchiveState::MissingColumns(missing));
    }
    // The statement itself, on no row: types that do not fit and rights that are missing are found now, and not in a week.
    archive_published(connection, table, Duration::ZERO, 0).await?;
    Ok(ArchiveState::Ready)
}

async fn columns(connection: &mut PgConnection, table: &ArchiveTable) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(COLUMNS).bind(table.quoted()).fetch_all(connection).await
}

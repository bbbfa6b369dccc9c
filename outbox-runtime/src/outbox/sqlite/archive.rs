//! Moving published rows to the archive, and making the archive (S5).
//!
//! SQLite has no statement that deletes and inserts: two of them in one transaction, on the same rows by their numbers.

use std::time::Duration;

use sqlx::{AssertSqlSafe, SqliteConnection};

use crate::outbox::{ARCHIVE_COLUMNS, ArchiveState, ArchiveTable, moved_columns};
use crate::store::sqlite::sql::{Together, array, micros, now};

pub(crate) const OLDEST: &str = concat!(
    "SELECT rowid FROM outbox_messages WHERE status = 'Published' AND published_at < ",
    now!(),
    " - ?1 ORDER BY published_at, event_id LIMIT ?2"
);

pub(crate) const TAKE_AWAY: &str = "DELETE FROM outbox_messages WHERE rowid IN (SELECT value FROM json_each(?1))";

fn copy_sql(table: &ArchiveTable) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!(
        "INSERT INTO {} ({}, archived_at) SELECT {}, {} FROM outbox_messages WHERE rowid IN (SELECT value FROM json_each(?1))
         ORDER BY published_at, event_id",
        table.quoted(),
        moved_columns!(""),
        moved_columns!(""),
        now!()
    ))
}

/// No unique key: after a replay, or when an id is used again later, an event is archived twice.
fn create_sql(table: &ArchiveTable) -> String {
    let index = format!("\"{}_event\"", table.table());
    let index = table.schema().map_or_else(|| index.clone(), |schema| format!("\"{schema}\".{index}"));
    format!(
        "
CREATE TABLE IF NOT EXISTS {} (
    event_id        TEXT NOT NULL,
    aggregate_type  TEXT NOT NULL,
    aggregate_id    TEXT NOT NULL,
    sequence        INTEGER NULL,
    event_type      TEXT NOT NULL,
    event_version   INTEGER NOT NULL,
    exchange        TEXT NOT NULL,
    routing_key     TEXT NOT NULL,
    envelope        TEXT NOT NULL,
    payload         TEXT NOT NULL,
    payload_bytes   INTEGER NOT NULL,
    headers         TEXT NOT NULL,
    occurred_at     INTEGER NOT NULL,
    enqueued_at     INTEGER NOT NULL,
    attempt_count   INTEGER NOT NULL,
    unknown_count   INTEGER NOT NULL,
    published_at    INTEGER NOT NULL,
    archived_at     INTEGER NOT NULL DEFAULT ({})
) STRICT;
CREATE INDEX IF NOT EXISTS {index} ON \"{}\" (event_id)",
        table.quoted(),
        now!(),
        table.table()
    )
}

pub(crate) async fn archive_published(
    connection: &mut SqliteConnection,
    table: &ArchiveTable,
    after: Duration,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let old = async |connection: &mut SqliteConnection| {
        sqlx::query_scalar::<_, i64>(OLDEST).bind(micros(after)).bind(limit).fetch_all(connection).await
    };
    // Asked before anything is written: what finds nothing takes no lock.
    if old(&mut *connection).await?.is_empty() {
        return Ok(0);
    }
    let mut tx = Together::begin(&mut *connection).await?;
    let rows = array(&old(&mut tx).await?)?;
    sqlx::query(copy_sql(table)).bind(&rows).execute(&mut *tx).await?;
    let moved = sqlx::query(TAKE_AWAY).bind(&rows).execute(&mut *tx).await?.rows_affected();
    tx.commit().await?;
    Ok(moved)
}

pub(crate) async fn prepare_archive(
    connection: &mut SqliteConnection,
    table: &ArchiveTable,
    create: bool,
) -> Result<ArchiveState, sqlx::Error> {
    if create && columns(connection, table).await?.is_empty() {
        let mut tx = Together::begin(&mut *connection).await?;
        sqlx::raw_sql(AssertSqlSafe(create_sql(table))).execute(&mut *tx).await?;
        tx.commit().await?;
    }
    let known = columns(connection, table).await?;
    if known.is_empty() {
        return Ok(ArchiveState::MissingTable);
    }
    // Names of columns are told apart without regard to case.
    let has = |name: &str| known.iter().any(|known| known.eq_ignore_ascii_case(name));
    let missing: Vec<String> =
        ARCHIVE_COLUMNS.iter().filter(|name| !has(name)).map(|name| (*name).to_owned()).collect();
    if !missing.is_empty() {
        return Ok(ArchiveState::MissingColumns(missing));
    }
    // The statement itself, on no row: a view, or columns that are generated, are found now, and not in a week.
    sqlx::query(copy_sql(table)).bind("[]").execute(connection).await?;
    Ok(ArchiveState::Ready)
}

async fn columns(connection: &mut SqliteConnection, table: &ArchiveTable) -> Result<Vec<String>, sqlx::Error> {
    let columns = sqlx::query_scalar("SELECT name FROM pragma_table_info(?1, ?2)");
    columns.bind(table.table()).bind(table.schema().unwrap_or("main")).fetch_all(connection).await
}

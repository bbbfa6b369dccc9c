//! One look at one index, from a key on.

use sqlx::{QueryBuilder, Row, Sqlite, SqliteConnection};

use super::summary::event;
use crate::admin::{Path, Placed, Scan, Scanned};
use crate::store::sqlite::sql::{array, bound};

const fn index(path: Path) -> &'static str {
    match path {
        Path::Held => "outbox_messages_held",
        Path::Leased => "outbox_messages_leased",
        Path::Due => "outbox_messages_due",
        Path::Published => "outbox_messages_published",
    }
}

/// What is read is bounded by the inner LIMIT, whatever the filter lets through; the last row that was read comes along, so that the next look
/// goes on there.
pub(crate) fn statement(scan: &Scan) -> Result<QueryBuilder<Sqlite>, sqlx::Error> {
    let (key, direction) = (scan.path.key(), if scan.newest_first { "DESC" } else { "ASC" });
    let mut sql =
        QueryBuilder::new("SELECT * FROM (SELECT *, row_number() OVER () AS place, count(*) OVER () AS read, ");
    sql.push(key).push(" AS key, (");
    fits(&mut sql, scan)?;
    sql.push(
        ") AS fits FROM (SELECT event_id, event_type, event_version, aggregate_type, aggregate_id, sequence, exchange, routing_key, envelope, \
         payload_bytes, status, attempt_count, max_attempts, unknown_count, last_error, skipped, unroutable, on_failed, locked_by, \
         next_attempt_at, locked_until, occurred_at, enqueued_at, published_at FROM outbox_messages INDEXED BY ",
    );
    sql.push(index(scan.path)).push(" WHERE ").push(scan.path.condition());
    let (from, to) = scan.key_range();
    if let Some(from) = from {
        sql.push(format_args!(" AND {key} >= ")).push_bind(from);
    }
    if let Some(to) = to {
        sql.push(format_args!(" AND {key} < ")).push_bind(to);
    }
    if let Some((after, id)) = &scan.after {
        // The first comparison is what an index on the time alone can use.
        let (reach, beyond) = if scan.newest_first { ("<=", "<") } else { (">=", ">") };
        sql.push(format_args!(" AND {key} {reach} ")).push_bind(*after);
        sql.push(format_args!(" AND ({key}, event_id) {beyond} (")).push_bind(*after);
        sql.push(", ").push_bind(id.clone()).push(")");
    }
    sql.push(format_args!(" ORDER BY {key} {direction}, event_id {direction} LIMIT ")).push_bind(bound(scan.read));
    sql.push(")) WHERE fits OR place = read ORDER BY place LIMIT ").push_bind(bound(scan.rows + 1));
    Ok(sql)
}

/// What the index does not know.
fn fits(sql: &mut QueryBuilder<Sqlite>, scan: &Scan) -> Result<(), sqlx::Error> {
    let statuses: Vec<&str> = scan.statuses.iter().map(|status| status.as_str()).collect();
    sql.push("status IN (SELECT value FROM json_each(").push_bind(array(&statuses)?).push("))");
    if !scan.types.is_empty() {
        sql.push(" AND event_type IN (SELECT value FROM json_each(").push_bind(array(&scan.types)?).push("))");
    }
    if let Some((kind, id)) = &scan.aggregate {
        sql.push(" AND aggregate_type = ").push_bind(kind.clone()).push(" AND aggregate_id = ").push_bind(id.clone());
    }
    if let Some(error) = &scan.error {
        sql.push(" AND instr(last_error, ").push_bind(error.clone()).push(") > 0");
    }
    let mut range = |column: &str, (from, to): (Option<i64>, Option<i64>)| {
        if let Some(from) = from {
            sql.push(format_args!(" AND {column} >= ")).push_bind(from);
        }
        if let Some(to) = to {
            sql.push(format_args!(" AND {column} < ")).push_bind(to);
        }
    };
    range("enqueued_at", scan.enqueued);
    if scan.path == Path::Published {
        range("published_at", scan.published);
    }
    Ok(())
}

pub(crate) async fn scan(connection: &mut SqliteConnection, scan: &Scan) -> Result<Scanned, sqlx::Error> {
    let rows = statement(scan)?.build().persistent(false).fetch_all(connection).await?;
    let placed = rows.iter().map(|row| {
        let (key, fits, read) = (row.try_get("key")?, row.try_get("fits")?, row.try_get("read")?);
        Ok(Placed { event: event(row)?, key, fits, read })
    });
    Ok(Scanned::of(placed.collect::<Result<_, sqlx::Error>>()?, scan))
}

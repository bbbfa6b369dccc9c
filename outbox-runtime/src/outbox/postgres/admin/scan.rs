//! One look at one index, from a key on.

use sqlx::{PgConnection, Postgres, QueryBuilder, Row};

use super::summary::{SUMMARY, event};
use crate::admin::{Path, Placed, Scan, Scanned};
use crate::outbox::postgres::through_indexes;

/// What is read is bounded by the inner LIMIT, whatever the filter lets through; the last row that was read comes along, so that the next look
/// goes on there.
pub(crate) fn statement(scan: &Scan) -> QueryBuilder<Postgres> {
    let (key, direction) = (scan.path.key(), if scan.newest_first { "DESC" } else { "ASC" });
    let mut sql = QueryBuilder::new("SELECT ");
    sql.push(SUMMARY).push(", o.key, o.fits, o.read FROM (SELECT *, ");
    micros(&mut sql, key);
    sql.push(" AS key, row_number() OVER () AS place, count(*) OVER () AS read, (");
    fits(&mut sql, scan);
    // The columns by name: without the body and the headers.
    sql.push(
        ") AS fits FROM (SELECT event_id, event_type, event_version, aggregate_type, aggregate_id, sequence, exchange, routing_key, envelope, \
         payload_bytes, status, attempt_count, max_attempts, unknown_count, last_error, skipped, unroutable, on_failed, locked_by, \
         next_attempt_at, locked_until, occurred_at, enqueued_at, published_at FROM outbox_messages WHERE ",
    );
    sql.push(scan.path.condition());
    let (from, to) = scan.key_range();
    if let Some(from) = from {
        sql.push(format_args!(" AND {key} >= "));
        time(&mut sql, from);
    }
    if let Some(to) = to {
        sql.push(format_args!(" AND {key} < "));
        time(&mut sql, to);
    }
    if let Some((after, id)) = &scan.after {
        // The first comparison is what an index on the time alone can use.
        let (reach, beyond) = if scan.newest_first { ("<=", "<") } else { (">=", ">") };
        sql.push(format_args!(" AND {key} {reach} "));
        time(&mut sql, *after);
        sql.push(format_args!(" AND ({key}, event_id) {beyond} ("));
        time(&mut sql, *after);
        sql.push(", ").push_bind(id.clone()).push(")");
    }
    sql.push(format_args!(" ORDER BY {key} {direction}, event_id {direction} LIMIT ")).push_bind(bound(scan.read));
    sql.push(") AS r) AS o WHERE o.fits OR o.place = o.read ORDER BY o.place LIMIT ").push_bind(bound(scan.rows + 1));
    sql
}

/// What the index does not know.
fn fits(sql: &mut QueryBuilder<Postgres>, scan: &Scan) {
    let statuses: Vec<String> = scan.statuses.iter().map(|status| status.as_str().to_owned()).collect();
    sql.push("status = ANY(").push_bind(statuses).push(")");
    if !scan.types.is_empty() {
        sql.push(" AND event_type = ANY(").push_bind(scan.types.clone()).push(")");
    }
    if let Some((kind, id)) = &scan.aggregate {
        sql.push(" AND aggregate_type = ").push_bind(kind.clone()).push(" AND aggregate_id = ").push_bind(id.clone());
    }
    if let Some(error) = &scan.error {
        sql.push(" AND strpos(last_error, ").push_bind(error.clone()).push(") > 0");
    }
    let mut range = |column: &str, (from, to): (Option<i64>, Option<i64>)| {
        if let Some(from) = from {
            sql.push(format_args!(" AND {column} >= "));
            time(sql, from);
        }
        if let Some(to) = to {
            sql.push(format_args!(" AND {column} < "));
            time(sql, to);
        }
    };
    range("enqueued_at", scan.enqueued);
    if scan.path == Path::Published {
        range("published_at", scan.published);
    }
}

fn micros(sql: &mut QueryBuilder<Postgres>, column: &str) {
    sql.push(format_args!(
        "CASE {column} WHEN 'infinity' THEN 9223372036854775807 WHEN '-infinity' THEN (-9223372036854775807 - 1) \
         ELSE (extract(epoch FROM {column}) * 1000000)::bigint END"
    ));
}

/// A time from microseconds: exact, whatever the session's time zone and date style are.
fn time(sql: &mut QueryBuilder<Postgres>, micros: i64) {
    match micros {
        i64::MAX => sql.push("timestamptz 'infinity'"),
        i64::MIN => sql.push("timestamptz '-infinity'"),
        micros => sql
            .push("(timestamptz 'epoch' + ")
            .push_bind(micros.div_euclid(1_000_000))
            .push("::bigint * interval '1 second' + ")
            .push_bind(micros.rem_euclid(1_000_000))
            .push("::bigint * interval '1 microsecond')"),
    };
}

fn bound(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

pub(crate) async fn scan(connection: &mut PgConnection, scan: &Scan) -> Result<Scanned, sqlx::Error> {
    // Not kept as a prepared statement: there are many shapes of it, and a plan for the values at hand is the right one.
    let mut tx = through_indexes::look(connection).await?;
    let rows = statement(scan).build().persistent(false).fetch_all(&mut *tx).await?;
    tx.commit().await?;
    let placed = rows.iter().map(|row| {
        let (key, fits, read) = (row.try_get("key")?, row.try_get("fits")?, row.try_get("read")?);
        Ok(Placed { event: event(row)?, key, fits, read })
    });
    Ok(Scanned::of(placed.collect::<Result<_, sqlx::Error>>()?, scan))
}

//! Claim and renew (S4, R2).

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::event::{HeaderMap, Unroutable};
use crate::outbox::{ClaimLimits, ClaimedRow};
use crate::store::sqlite::sql::{age, array, bound, micros, now, text, time};

/// Asked before anything is written: a look at an idle outbox takes no lock.
pub(crate) const DUE: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM outbox_messages WHERE status = 'Pending' AND next_attempt_at <= ",
    now!(),
    ")"
);

/// The byte budget always lets one row through.
pub(crate) const CLAIM: &str = concat!(
    "
WITH due AS MATERIALIZED (
    SELECT rowid AS number, event_id, next_attempt_at, payload_bytes FROM outbox_messages
    WHERE status = 'Pending' AND next_attempt_at <= ",
    now!(),
    " ORDER BY next_attempt_at, event_id LIMIT ?1
),
placed AS (
    SELECT number, row_number() OVER due_first AS place, sum(payload_bytes) OVER due_first AS total
    FROM due WINDOW due_first AS (ORDER BY next_attempt_at, event_id)
)
UPDATE outbox_messages SET status = 'Processing', locked_by = ?3, locked_until = ",
    now!(),
    " + ?4
WHERE rowid IN (SELECT number FROM placed WHERE total <= ?2 OR place = 1)
RETURNING event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload, headers, unroutable,
          attempt_count, max_attempts, occurred_at, enqueued_at, next_attempt_at, ",
    now!(),
    " AS now"
);

pub(crate) const RENEW: &str = concat!(
    "UPDATE outbox_messages SET locked_until = ",
    now!(),
    " + ?2 WHERE status = 'Processing' AND locked_by IN (SELECT value FROM json_each(?1))"
);

pub(crate) async fn claim(
    connection: &mut SqliteConnection,
    claim_id: &str,
    limits: ClaimLimits,
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    if !sqlx::query_scalar(DUE).fetch_one(&mut *connection).await? {
        return Ok(Vec::new());
    }
    // Not `fetch_one` nor `fetch_optional` on a statement that writes: they end it early, and then nobody hears whether its commit failed.
    let rows = sqlx::query(CLAIM)
        .bind(bound(limits.rows))
        .bind(bound(limits.bytes))
        .bind(claim_id)
        .bind(micros(limits.lease))
        .fetch_all(connection)
        .await?;
    let mut claimed = rows.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    // RETURNING promises no order.
    claimed.sort_by(|(one_due, one), (other_due, other)| {
        one_due.cmp(other_due).then_with(|| one.event_id.cmp(&other.event_id))
    });
    Ok(claimed.into_iter().map(|(_, row)| row).collect())
}

/// Nothing that a producer in plain SQL may have written fails: one row would stop the relay for ever.
fn decode(row: &SqliteRow) -> Result<(i64, ClaimedRow), sqlx::Error> {
    let mut defect = None;
    let headers: HeaderMap = serde_json::from_str(&text(row, "headers")?).unwrap_or_else(|error| {
        defect = Some(format!("its headers cannot be read: {error}"));
        HeaderMap::new()
    });
    let enqueued: i64 = row.try_get("enqueued_at")?;
    let mut when = |column: &str| -> Result<DateTime<Utc>, sqlx::Error> {
        Ok(time(row.try_get(column)?).unwrap_or_else(|| {
            defect = Some(format!("its `{column}` is outside the years 1 to 9999"));
            DateTime::UNIX_EPOCH
        }))
    };
    let (occurred_at, enqueued_at) = (when("occurred_at")?, when("enqueued_at")?);
    for column in ["event_id", "aggregate_id", "event_type", "exchange", "routing_key", "payload"] {
        if std::str::from_utf8(row.try_get(column)?).is_err() {
            defect = Some(format!("its `{column}` is not UTF-8"));
        }
    }
    Ok((
        row.try_get("next_attempt_at")?,
        ClaimedRow {
            event_id: text(row, "event_id")?,
            aggregate_id: text(row, "aggregate_id")?,
            event_type: text(row, "event_type")?,
            event_version: row.try_get("event_version")?,
            exchange: text(row, "exchange")?,
            routing_key: text(row, "routing_key")?,
            envelope: text(row, "envelope")?,
            payload: text(row, "payload")?,
            headers,
            occurred_at,
            enqueued_at,
            age: age(row.try_get("now")?, enqueued),
            unroutable: Unroutable::from_name(&text(row, "unroutable")?).unwrap_or_default(),
            attempt_count: row.try_get("attempt_count")?,
            max_attempts: row.try_get("max_attempts")?,
            defect,
        },
    ))
}

pub(crate) async fn renew(
    connection: &mut SqliteConnection,
    claim_ids: &[String],
    lease: Duration,
) -> Result<u64, sqlx::Error> {
    Ok(sqlx::query(RENEW).bind(array(claim_ids)?).bind(micros(lease)).execute(connection).await?.rows_affected())
}

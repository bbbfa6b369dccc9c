//! Claim and renew (S4, R2).

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row, SqliteConnection};

use crate::event::{HeaderMap, OnFailed, Unroutable};
use crate::outbox::sqlite::line;
use crate::outbox::{Budget, ClaimLimits, Claimed, ClaimedRow};
use crate::store::sqlite::sql::{age, array, micros, now, text, time};

/// Asked before anything is written: a look at an idle outbox takes no lock.
pub(crate) const DUE: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM outbox_messages WHERE status = 'Pending' AND next_attempt_at <= ",
    now!(),
    ")"
);

pub(crate) const CLAIM: &str = concat!(
    "
UPDATE outbox_messages SET status = 'Processing', locked_by = ?2, locked_until = ",
    now!(),
    " + ?3
WHERE rowid IN (SELECT value FROM json_each(?1))
RETURNING rowid AS number, event_id, aggregate_type, aggregate_id, CASE WHEN NOT skipped THEN sequence END AS sequence, event_type, event_version,
          exchange, routing_key, envelope, payload, headers, unroutable, attempt_count, max_attempts, max_age, on_failed, backoff_first,
          backoff_longest, unknown_count, occurred_at, enqueued_at, ",
    now!(),
    " AS now"
);

pub(crate) const DEFER: &str =
    "UPDATE outbox_messages SET next_attempt_at = 9223372036854775807 WHERE rowid IN (SELECT value FROM json_each(?1))";

pub(crate) const LOOK_AGAIN: &str = concat!(
    "UPDATE outbox_messages SET next_attempt_at = ",
    now!(),
    " + 2000000 WHERE rowid IN (SELECT value FROM json_each(?1))"
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
) -> Result<Claimed, sqlx::Error> {
    if !sqlx::query_scalar(DUE).fetch_one(&mut *connection).await? {
        return Ok(Claimed::default());
    }
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let plan = line::take(&mut tx, limits.rows, limits.bytes).await?;
    let mut rows = Vec::new();
    if !plan.go.is_empty() {
        // Not `fetch_one` nor `fetch_optional` on a statement that writes: they end it early.
        let claimed = sqlx::query(CLAIM)
            .bind(array(&plan.go)?)
            .bind(claim_id)
            .bind(micros(limits.lease))
            .fetch_all(&mut *tx)
            .await?;
        let places = line::places(&plan.go);
        let mut placed = Vec::with_capacity(claimed.len());
        for row in &claimed {
            placed.push((places.get(&row.try_get("number")?).copied(), decode(row)?));
        }
        // RETURNING promises no order.
        placed.sort_by_key(|(place, _)| *place);
        rows = placed.into_iter().map(|(_, row)| row).collect();
    }
    let deferred = defer(&mut tx, &plan.wait, &plan.look_again).await?;
    tx.commit().await?;
    Ok(Claimed { rows, deferred, met: None })
}

/// Puts aside what waits for a row before it; returns how many rows those are.
pub(crate) async fn defer(
    connection: &mut SqliteConnection,
    waiting: &[i64],
    look_again: &[i64],
) -> Result<u64, sqlx::Error> {
    if !waiting.is_empty() {
        sqlx::query(DEFER).bind(array(waiting)?).execute(&mut *connection).await?;
    }
    if !look_again.is_empty() {
        sqlx::query(LOOK_AGAIN).bind(array(look_again)?).execute(connection).await?;
    }
    Ok((waiting.len() + look_again.len()) as u64)
}

/// Nothing that a producer in plain SQL may have written fails: one row would stop the relay for ever.
fn decode(row: &SqliteRow) -> Result<ClaimedRow, sqlx::Error> {
    let mut defect = None;
    let headers: HeaderMap = serde_json::from_str(&text(row, "headers")?).unwrap_or_else(|_| {
        defect = Some("its headers are not a JSON object".to_owned());
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
    Ok(ClaimedRow {
        event_id: text(row, "event_id")?,
        aggregate_type: text(row, "aggregate_type")?,
        aggregate_id: text(row, "aggregate_id")?,
        sequence: row.try_get("sequence")?,
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
        budget: budget(row)?,
        defect,
    })
}

/// The policies and the history of a row; an unknown word, which the table does not allow, means the default.
pub(crate) fn budget(row: &SqliteRow) -> Result<Budget, sqlx::Error> {
    let unsigned = |column: &str| row.try_get::<i64, _>(column).map(|number| u64::try_from(number).unwrap_or(0));
    let max_age: Option<i64> = row.try_get("max_age")?;
    Ok(Budget {
        unroutable: Unroutable::from_name(&text(row, "unroutable")?).unwrap_or_default(),
        attempt_count: row.try_get("attempt_count")?,
        max_attempts: row.try_get("max_attempts")?,
        max_age: max_age.and_then(|micros| u64::try_from(micros).ok()).map(Duration::from_micros),
        on_failed: OnFailed::from_name(&text(row, "on_failed")?).unwrap_or_default(),
        backoff: (
            Duration::from_millis(unsigned("backoff_first")?),
            Duration::from_millis(unsigned("backoff_longest")?),
        ),
        unknown_count: row.try_get("unknown_count")?,
    })
}

pub(crate) async fn renew(
    connection: &mut SqliteConnection,
    claim_ids: &[String],
    lease: Duration,
) -> Result<u64, sqlx::Error> {
    Ok(sqlx::query(RENEW).bind(array(claim_ids)?).bind(micros(lease)).execute(connection).await?.rows_affected())
}

//! Claim and renew (S4, R1, R2).

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::event::{HeaderMap, OnFailed, Unroutable};
use crate::outbox::postgres::line::line;
use crate::outbox::{Budget, ClaimLimits, Claimed, ClaimedRow};

/// The flush is waived for this statement alone: a lost claim is claimed again. Nothing that a producer in plain SQL may have written fails
/// the statement or its decoding: one row would stop the relay for ever.
pub const CLAIM: &str = concat!(
    "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),",
    line!(""),
    ",
moves AS MATERIALIZED (
    SELECT event_id, place, NULL::timestamptz AS until FROM fitting
    UNION ALL
    SELECT event_id, NULL, until FROM deferred
)
UPDATE outbox_messages AS o
SET status = CASE WHEN moves.place IS NULL THEN o.status ELSE 'Processing' END,
    locked_by = CASE WHEN moves.place IS NOT NULL THEN $3 END,
    locked_until = CASE WHEN moves.place IS NOT NULL THEN clock_timestamp() + $4 * interval '1 millisecond' END,
    next_attempt_at = COALESCE(moves.until, o.next_attempt_at)
FROM moves, unflushed WHERE o.event_id = ANY (ARRAY(SELECT event_id FROM moves)) AND o.event_id = moves.event_id
RETURNING (SELECT latest FROM met) AS latest, moves.place, o.event_id, o.aggregate_type, o.aggregate_id, CASE WHEN o.skipped THEN NULL ELSE o.sequence END AS sequence,
          o.event_type, o.event_version, o.exchange, o.routing_key, o.envelope,
          CASE WHEN moves.place IS NOT NULL THEN o.payload::text END AS payload,
          CASE WHEN moves.place IS NOT NULL THEN o.headers::text END AS headers,
          o.unroutable, o.attempt_count, o.max_attempts, o.on_failed, o.backoff_first, o.backoff_longest, o.unknown_count,
          CASE WHEN extract(epoch FROM o.max_age) >= 0 THEN extract(epoch FROM o.max_age)::float8 END AS max_age,
          CASE WHEN o.occurred_at >= '0001-01-01' AND o.occurred_at < '10000-01-01' THEN o.occurred_at END AS occurred_at,
          CASE WHEN o.enqueued_at >= '0001-01-01' AND o.enqueued_at < '10000-01-01' THEN o.enqueued_at END AS enqueued_at,
          CASE WHEN isfinite(o.enqueued_at) THEN extract(epoch FROM clock_timestamp() - o.enqueued_at)::float8 END AS age"
);

/// Rows that somebody else has locked at the moment are left for the next time.
pub const RENEW: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
mine AS MATERIALIZED (
    SELECT event_id FROM outbox_messages
    WHERE status = 'Processing' AND locked_by = ANY($1) ORDER BY event_id FOR UPDATE SKIP LOCKED
)
UPDATE outbox_messages AS o SET locked_until = clock_timestamp() + $2 * interval '1 millisecond'
FROM mine, unflushed WHERE o.event_id = mine.event_id";

pub(crate) async fn claim(
    connection: &mut PgConnection,
    claim_id: &str,
    limits: ClaimLimits,
) -> Result<Claimed, sqlx::Error> {
    let moved = sqlx::query(CLAIM)
        .bind(i64::try_from(limits.rows).unwrap_or(i64::MAX))
        .bind(i64::try_from(limits.bytes).unwrap_or(i64::MAX))
        .bind(claim_id)
        .bind(millis(limits.lease))
        .bind(limits.since)
        .fetch_all(connection)
        .await?;
    let mut claimed = Vec::with_capacity(moved.len());
    let (mut deferred, mut met) = (0, None);
    for row in &moved {
        met = row.try_get("latest")?;
        match row.try_get::<Option<i64>, _>("place")? {
            Some(place) => claimed.push((place, decode(row)?)),
            None => deferred += 1,
        }
    }
    // RETURNING promises no order.
    claimed.sort_by_key(|(place, _)| *place);
    Ok(Claimed { rows: claimed.into_iter().map(|(_, row)| row).collect(), deferred, met })
}

fn decode(row: &PgRow) -> Result<ClaimedRow, sqlx::Error> {
    let mut defect = None;
    let headers: String = row.try_get("headers")?;
    let headers: HeaderMap = serde_json::from_str(&headers).unwrap_or_else(|_| {
        defect = Some("its headers are not a JSON object".to_owned());
        HeaderMap::new()
    });
    let mut time = |column: &str| -> Result<DateTime<Utc>, sqlx::Error> {
        Ok(row.try_get::<Option<_>, _>(column)?.unwrap_or_else(|| {
            defect = Some(format!("its `{column}` is outside the years 1 to 9999"));
            DateTime::UNIX_EPOCH
        }))
    };
    let (occurred_at, enqueued_at) = (time("occurred_at")?, time("enqueued_at")?);
    Ok(ClaimedRow {
        event_id: row.try_get("event_id")?,
        aggregate_type: row.try_get("aggregate_type")?,
        aggregate_id: row.try_get("aggregate_id")?,
        sequence: row.try_get("sequence")?,
        event_type: row.try_get("event_type")?,
        event_version: row.try_get("event_version")?,
        exchange: row.try_get("exchange")?,
        routing_key: row.try_get("routing_key")?,
        envelope: row.try_get("envelope")?,
        payload: row.try_get("payload")?,
        headers,
        occurred_at,
        enqueued_at,
        age: seconds(row, "age")?.unwrap_or_default(),
        budget: budget(row)?,
        defect,
    })
}

/// The policies and the history of a row; an unknown word, which the table does not allow, means the default.
pub(crate) fn budget(row: &PgRow) -> Result<Budget, sqlx::Error> {
    let (unroutable, on_failed): (String, String) = (row.try_get("unroutable")?, row.try_get("on_failed")?);
    let millis = |column: &str| {
        row.try_get::<i32, _>(column).map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
    };
    Ok(Budget {
        unroutable: Unroutable::from_name(&unroutable).unwrap_or_default(),
        attempt_count: row.try_get("attempt_count")?,
        max_attempts: row.try_get("max_attempts")?,
        max_age: seconds(row, "max_age")?,
        on_failed: OnFailed::from_name(&on_failed).unwrap_or_default(),
        backoff: (millis("backoff_first")?, millis("backoff_longest")?),
        unknown_count: row.try_get("unknown_count")?,
    })
}

/// A span in seconds, unless it is none or too long for a clock.
pub(crate) fn seconds(row: &PgRow, column: &str) -> Result<Option<Duration>, sqlx::Error> {
    Ok(row.try_get::<Option<f64>, _>(column)?.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
}

pub(crate) async fn renew(
    connection: &mut PgConnection,
    claim_ids: &[String],
    lease: Duration,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(RENEW).bind(claim_ids).bind(millis(lease)).execute(connection).await?;
    Ok(done.rows_affected())
}

pub(crate) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

//! Claim and renew (S4, R1, R2).

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::event::{HeaderMap, Unroutable};
use crate::outbox::{ClaimLimits, ClaimedRow};

/// The flush is waived for this statement alone: a lost claim is claimed again. `MATERIALIZED` keeps the limit a limit, whatever plan the
/// server takes (F45); the byte budget always lets one row through. Nothing that a producer in plain SQL may have written fails the
/// statement or its decoding: one row would stop the relay for ever.
const CLAIM: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
due AS MATERIALIZED (
    SELECT event_id, next_attempt_at, payload_bytes FROM outbox_messages
    WHERE status = 'Pending' AND next_attempt_at <= now()
    ORDER BY next_attempt_at, event_id LIMIT $1 FOR UPDATE SKIP LOCKED
),
fitting AS MATERIALIZED (
    SELECT event_id, place FROM (
        SELECT event_id, payload_bytes, row_number() OVER due_first AS place, sum(payload_bytes::bigint) OVER due_first AS total
        FROM due WINDOW due_first AS (ORDER BY next_attempt_at, event_id)
    ) AS summed WHERE total <= $2 OR place = 1
)
UPDATE outbox_messages AS o
SET status = 'Processing', locked_by = $3, locked_until = clock_timestamp() + $4 * interval '1 millisecond'
FROM fitting, unflushed WHERE o.event_id = fitting.event_id
RETURNING o.event_id, o.aggregate_id, o.event_type, o.event_version, o.exchange, o.routing_key, o.envelope, o.payload::text AS payload,
          o.headers::text AS headers, o.unroutable, o.attempt_count, o.max_attempts, fitting.place,
          CASE WHEN o.occurred_at >= '0001-01-01' AND o.occurred_at < '10000-01-01' THEN o.occurred_at END AS occurred_at,
          CASE WHEN o.enqueued_at >= '0001-01-01' AND o.enqueued_at < '10000-01-01' THEN o.enqueued_at END AS enqueued_at,
          CASE WHEN isfinite(o.enqueued_at) THEN extract(epoch FROM clock_timestamp() - o.enqueued_at)::float8 END AS age";

const RENEW: &str = "
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
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    let rows = sqlx::query(CLAIM)
        .bind(i64::try_from(limits.rows).unwrap_or(i64::MAX))
        .bind(i64::try_from(limits.bytes).unwrap_or(i64::MAX))
        .bind(claim_id)
        .bind(millis(limits.lease))
        .fetch_all(connection)
        .await?;
    let mut claimed = rows.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    // RETURNING promises no order.
    claimed.sort_by_key(|(place, _)| *place);
    Ok(claimed.into_iter().map(|(_, row)| row).collect())
}

fn decode(row: &PgRow) -> Result<(i64, ClaimedRow), sqlx::Error> {
    let mut defect = None;
    let headers: String = row.try_get("headers")?;
    let headers: HeaderMap = serde_json::from_str(&headers).unwrap_or_else(|error| {
        defect = Some(format!("its headers cannot be read: {error}"));
        HeaderMap::new()
    });
    let mut time = |column: &str| -> Result<DateTime<Utc>, sqlx::Error> {
        Ok(row.try_get::<Option<_>, _>(column)?.unwrap_or_else(|| {
            defect = Some(format!("its `{column}` is outside the years 1 to 9999"));
            DateTime::UNIX_EPOCH
        }))
    };
    let (occurred_at, enqueued_at) = (time("occurred_at")?, time("enqueued_at")?);
    let unroutable: String = row.try_get("unroutable")?;
    let age: Option<f64> = row.try_get("age")?;
    Ok((
        row.try_get("place")?,
        ClaimedRow {
            event_id: row.try_get("event_id")?,
            aggregate_id: row.try_get("aggregate_id")?,
            event_type: row.try_get("event_type")?,
            event_version: row.try_get("event_version")?,
            exchange: row.try_get("exchange")?,
            routing_key: row.try_get("routing_key")?,
            envelope: row.try_get("envelope")?,
            payload: row.try_get("payload")?,
            headers,
            occurred_at,
            enqueued_at,
            age: age.and_then(|age| Duration::try_from_secs_f64(age).ok()).unwrap_or_default(),
            unroutable: Unroutable::from_name(&unroutable).unwrap_or_default(),
            attempt_count: row.try_get("attempt_count")?,
            max_attempts: row.try_get("max_attempts")?,
            defect,
        },
    ))
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

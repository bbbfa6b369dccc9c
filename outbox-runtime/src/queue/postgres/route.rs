//! Routing: claim, fan-out and settle in one statement (S4, R1). The bodies never leave the server.

use std::time::Duration;

use sqlx::{PgConnection, Row};

use crate::event::Unroutable;
use crate::outbox::postgres::millis;
use crate::queue::{RouteClaim, RoutedRow};

/// The flush is waived: if the whole of it is lost, the event is Pending again, and a consumer's flushed commit flushes what came before it.
/// Everything that a message needs is read where the row is locked, so that it is the row's latest version. Nothing that a producer in plain
/// SQL may have written fails the statement: one row would stop the relay for ever.
const ROUTE: &str = r"
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
due AS MATERIALIZED (
    SELECT event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload, payload_bytes, headers, occurred_at,
           enqueued_at, next_attempt_at
    FROM outbox_messages
    WHERE status = 'Pending' AND next_attempt_at <= now()
    ORDER BY next_attempt_at, event_id LIMIT $1 FOR UPDATE SKIP LOCKED
),
placed AS MATERIALIZED (
    SELECT event_id, row_number() OVER due_first AS place, sum(payload_bytes::bigint) OVER due_first AS total
    FROM due WINDOW due_first AS (ORDER BY next_attempt_at, event_id)
),
fitting AS MATERIALIZED (
    SELECT due.*, placed.place,
           CASE WHEN jsonb_typeof(headers) <> 'object' THEN 'its headers are not a JSON object'
                WHEN NOT (occurred_at >= '0001-01-01' AND occurred_at < '10000-01-01') THEN 'its `occurred_at` is outside the years 1 to 9999'
                WHEN NOT (enqueued_at >= '0001-01-01' AND enqueued_at < '10000-01-01') THEN 'its `enqueued_at` is outside the years 1 to 9999'
           END AS defect
    FROM due JOIN placed USING (event_id) WHERE placed.total <= $2 OR placed.place = 1
),
routes AS MATERIALIZED (
    SELECT DISTINCT f.event_id, f.place, b.queue FROM fitting AS f JOIN queue_bindings AS b ON b.exchange = $5 || f.exchange
    WHERE f.defect IS NULL
      AND CASE WHEN b.pattern IS NULL THEN b.binding_key = f.routing_key
               ELSE (CASE f.routing_key WHEN '' THEN '' ELSE f.routing_key || '.' END) ~ b.pattern END
),
put AS (
    INSERT INTO queue_messages (queue, event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload, headers,
                                occurred_at, enqueued_at)
    SELECT r.queue, f.event_id, f.aggregate_id, f.event_type, f.event_version, $5 || f.exchange, f.routing_key, f.envelope, f.payload, f.headers,
           f.occurred_at, f.enqueued_at
    FROM routes AS r JOIN fitting AS f USING (event_id) ORDER BY r.place, r.queue
),
decided AS MATERIALIZED (
    SELECT f.event_id, f.place, f.defect, count(r.queue) AS queues
    FROM fitting AS f LEFT JOIN routes AS r USING (event_id) GROUP BY f.event_id, f.place, f.defect
)
UPDATE outbox_messages AS o
SET status = CASE WHEN d.queues > 0 THEN 'Published' ELSE 'Processing' END,
    published_at = CASE WHEN d.queues > 0 THEN clock_timestamp() END,
    last_error = CASE WHEN d.queues > 0 THEN NULL ELSE o.last_error END,
    locked_by = CASE WHEN d.queues > 0 THEN NULL ELSE $3 END,
    locked_until = CASE WHEN d.queues > 0 THEN NULL ELSE clock_timestamp() + $4 * interval '1 millisecond' END
FROM decided AS d, unflushed WHERE o.event_id = d.event_id
RETURNING o.event_id, o.event_type, o.exchange, o.routing_key, d.queues, d.defect, o.unroutable, o.attempt_count, o.max_attempts,
          CASE WHEN isfinite(o.enqueued_at) THEN extract(epoch FROM clock_timestamp() - o.enqueued_at)::float8 END AS age";

pub(crate) async fn route_due(
    connection: &mut PgConnection,
    claim: &RouteClaim,
) -> Result<Vec<RoutedRow>, sqlx::Error> {
    let rows = sqlx::query(ROUTE)
        .bind(i64::try_from(claim.limits.rows).unwrap_or(i64::MAX))
        .bind(i64::try_from(claim.limits.bytes).unwrap_or(i64::MAX))
        .bind(&claim.claim_id)
        .bind(millis(claim.limits.lease))
        .bind(&claim.prefix)
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            let unroutable: String = row.try_get("unroutable")?;
            let age: Option<f64> = row.try_get("age")?;
            Ok(RoutedRow {
                event_id: row.try_get("event_id")?,
                event_type: row.try_get("event_type")?,
                exchange: row.try_get("exchange")?,
                routing_key: row.try_get("routing_key")?,
                queues: row.try_get("queues")?,
                age: age.and_then(|age| Duration::try_from_secs_f64(age).ok()).unwrap_or_default(),
                unroutable: Unroutable::from_name(&unroutable).unwrap_or_default(),
                attempt_count: row.try_get("attempt_count")?,
                max_attempts: row.try_get("max_attempts")?,
                defect: row.try_get("defect")?,
            })
        })
        .collect()
}

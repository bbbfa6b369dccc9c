//! Routing: claim, fan-out and settle in one statement (S4, R1, R6). The bodies never leave the server.

use sqlx::{PgConnection, Row};

use crate::outbox::postgres::{budget, line, millis, seconds};
use crate::queue::{RouteClaim, Routed, RoutedRow};

/// The flush is waived: if the whole of it is lost, the event is Pending again, and a consumer's flushed commit flushes what came before it.
/// Everything that a message needs is read where the row is locked, so that it is the row's latest version. Nothing that a producer in plain
/// SQL may have written fails the statement: one row would stop the relay for ever.
///
/// Of a key, the rows before the first one that no queue wants are routed; that one stays claimed, and the rest waits. Nothing here waits for a
/// lock of another relay: two that route each other's followers would stand still.
pub const ROUTE: &str = concat!(
    r"
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),",
    line!(
        ", o.event_type, o.event_version, o.exchange, o.routing_key, o.envelope, o.payload, o.headers, o.occurred_at, o.enqueued_at,
           o.unroutable, o.attempt_count, o.max_attempts, o.max_age, o.on_failed, o.backoff_first, o.backoff_longest, o.unknown_count"
    ),
    r",
checked AS MATERIALIZED (
    SELECT fitting.*,
           CASE WHEN jsonb_typeof(headers) <> 'object' THEN 'its headers are not a JSON object'
                WHEN payload_bytes > 16777216 AND octet_length(payload::text) > 16777216
                THEN format('its body has %s bytes, the limit is 16777216', octet_length(payload::text))
                WHEN NOT (occurred_at >= '0001-01-01' AND occurred_at < '10000-01-01') THEN 'its `occurred_at` is outside the years 1 to 9999'
                WHEN NOT (enqueued_at >= '0001-01-01' AND enqueued_at < '10000-01-01') THEN 'its `enqueued_at` is outside the years 1 to 9999'
           END AS defect
    FROM fitting
),
routes AS MATERIALIZED (
    SELECT DISTINCT c.event_id, b.queue FROM checked AS c JOIN queue_bindings AS b ON b.exchange = $6 || c.exchange
    WHERE c.defect IS NULL
      AND CASE WHEN b.pattern IS NULL THEN b.binding_key = c.routing_key
               ELSE (CASE c.routing_key WHEN '' THEN '' ELSE c.routing_key || '.' END) ~ b.pattern END
),
counted AS MATERIALIZED (SELECT event_id, count(*) AS queues FROM routes GROUP BY event_id),
decided AS MATERIALIZED (
    SELECT event_id, place, aggregate_type, aggregate_id, sequence, queues,
           CASE WHEN sequence IS NULL THEN queues > 0 ELSE bool_and(queues > 0) OVER (in_line) END AS passes,
           CASE WHEN sequence IS NULL THEN true
                ELSE COALESCE(bool_and(queues > 0) OVER (in_line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) END AS reached
    FROM (SELECT c.event_id, c.place, c.aggregate_type, c.aggregate_id, c.sequence, COALESCE(n.queues, 0) AS queues
          FROM checked AS c LEFT JOIN counted AS n USING (event_id)) AS wanted
    WINDOW in_line AS (PARTITION BY aggregate_type, aggregate_id, sequence IS NULL ORDER BY sequence)
),
put AS (
    INSERT INTO queue_messages (queue, event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload, headers,
                                occurred_at, enqueued_at)
    SELECT r.queue, c.event_id, c.aggregate_id, c.event_type, c.event_version, $6 || c.exchange, c.routing_key, c.envelope, c.payload, c.headers,
           c.occurred_at, c.enqueued_at
    FROM routes AS r JOIN decided AS d USING (event_id) JOIN checked AS c USING (event_id)
    WHERE d.passes ORDER BY d.place, r.queue
),
follower AS MATERIALIZED (
    SELECT DISTINCT f.event_id FROM decided AS d CROSS JOIN LATERAL (
        SELECT m.event_id, m.status FROM outbox_messages AS m
        WHERE m.aggregate_type = d.aggregate_type AND m.aggregate_id = d.aggregate_id AND m.sequence > d.sequence
          AND m.sequence IS NOT NULL AND m.status <> 'Published' AND NOT m.skipped
        ORDER BY m.sequence LIMIT 1
    ) AS f
    WHERE d.sequence IS NOT NULL AND d.passes AND f.status = 'Pending'
      AND NOT EXISTS (SELECT FROM decided AS other WHERE other.event_id = f.event_id)
      AND NOT EXISTS (SELECT FROM deferred AS other WHERE other.event_id = f.event_id)
),
pulled AS MATERIALIZED (
    SELECT o.event_id FROM outbox_messages AS o
    WHERE o.event_id = ANY (ARRAY(SELECT event_id FROM follower)) AND o.status = 'Pending'
      AND (o.next_attempt_at = 'infinity' OR o.next_attempt_at <= clock_timestamp() OR o.attempt_count = 0)
    FOR UPDATE SKIP LOCKED
),
moves AS MATERIALIZED (
    SELECT event_id, CASE WHEN passes THEN 'Published' WHEN reached THEN 'Processing' ELSE 'Pending' END AS status,
           CASE WHEN NOT reached THEN timestamptz 'infinity' END AS until
    FROM decided
    UNION ALL
    SELECT event_id, 'Pending',
           CASE WHEN EXISTS (SELECT FROM decided AS d WHERE d.passes AND d.event_id = deferred.previous) THEN clock_timestamp() ELSE until END
    FROM deferred
    UNION ALL
    SELECT event_id, 'Pending', clock_timestamp() FROM pulled
),
gone AS (
    DELETE FROM outbox_messages AS o WHERE $7 AND o.event_id = ANY (ARRAY(SELECT event_id FROM moves WHERE status = 'Published'))
),
moved AS (
    UPDATE outbox_messages AS o
    SET status = moves.status,
        published_at = CASE moves.status WHEN 'Published' THEN clock_timestamp() END,
        last_error = CASE moves.status WHEN 'Published' THEN NULL ELSE o.last_error END,
        locked_by = CASE moves.status WHEN 'Processing' THEN $3 END,
        locked_until = CASE moves.status WHEN 'Processing' THEN clock_timestamp() + $4 * interval '1 millisecond' END,
        next_attempt_at = COALESCE(moves.until, o.next_attempt_at)
    FROM moves
    WHERE o.event_id = ANY (ARRAY(SELECT event_id FROM moves)) AND o.event_id = moves.event_id AND NOT ($7 AND moves.status = 'Published')
)
SELECT d.passes, d.queues, c.event_id, c.event_type, c.exchange, c.routing_key, c.defect, c.unroutable, c.attempt_count, c.max_attempts,
       c.on_failed, c.backoff_first, c.backoff_longest, c.unknown_count,
       CASE WHEN extract(epoch FROM c.max_age) >= 0 THEN extract(epoch FROM c.max_age)::float8 END AS max_age,
       CASE WHEN isfinite(c.enqueued_at) THEN extract(epoch FROM clock_timestamp() - c.enqueued_at)::float8 END AS age,
       (SELECT count(*) FROM moves WHERE status = 'Pending') AS aside, (SELECT latest FROM met) AS latest
FROM unflushed LEFT JOIN (decided AS d JOIN checked AS c USING (event_id)) ON d.reached"
);

pub(crate) async fn route_due(connection: &mut PgConnection, claim: &RouteClaim) -> Result<Routed, sqlx::Error> {
    let found = sqlx::query(ROUTE)
        .bind(i64::try_from(claim.limits.rows).unwrap_or(i64::MAX))
        .bind(i64::try_from(claim.limits.bytes).unwrap_or(i64::MAX))
        .bind(&claim.claim_id)
        .bind(millis(claim.limits.lease))
        .bind(claim.limits.since)
        .bind(&claim.prefix)
        .bind(claim.delete_published)
        .fetch_all(connection)
        .await?;
    let mut routed = Routed::default();
    for row in &found {
        routed.met = row.try_get("latest")?;
        routed.deferred = u64::try_from(row.try_get::<i64, _>("aside")?).unwrap_or(0);
        // One row of NULLs says that nothing was due, or that all of it waits.
        let Some(published) = row.try_get("passes")? else { continue };
        routed.rows.push(RoutedRow {
            event_id: row.try_get("event_id")?,
            event_type: row.try_get("event_type")?,
            exchange: row.try_get("exchange")?,
            routing_key: row.try_get("routing_key")?,
            published,
            age: seconds(row, "age")?.unwrap_or_default(),
            budget: budget(row)?,
            defect: row.try_get("defect")?,
        });
    }
    Ok(routed)
}

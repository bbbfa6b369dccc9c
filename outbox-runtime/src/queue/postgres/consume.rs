//! Taking messages out of a queue: claim, renew, ack, put back (C3).

use std::time::Duration;

use sqlx::{PgConnection, Row};

use crate::event::HeaderMap;
use crate::outbox::postgres::millis;
use crate::queue::{QueueClaim, QueueKey, QueueRow};

/// Nothing that somebody may have written by hand fails the statement or its decoding: one row would stop the queue, and those that are claimed
/// with it, for ever. A lost claim is claimed again, and a lost count of deliveries is one more try: the flush is waived. A message whose handler is at work is
/// locked by its transaction, so that it is skipped even if its lease ran out.
const CLAIM: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
due AS MATERIALIZED (
    SELECT message_id FROM queue_messages
    WHERE queue = $1 AND available_at <= now()
    ORDER BY available_at, message_id LIMIT $2 FOR UPDATE SKIP LOCKED
)
UPDATE queue_messages AS q
SET deliveries = LEAST(q.deliveries::bigint + 1, 2147483647)::integer, locked_by = $3,
    available_at = clock_timestamp() + $4 * interval '1 millisecond'
FROM due, unflushed WHERE q.message_id = due.message_id
RETURNING q.message_id, q.event_id, q.aggregate_id, q.event_type, q.event_version, q.exchange, q.routing_key, q.envelope,
          q.payload::text AS payload, q.headers::text AS headers, q.deliveries,
          CASE WHEN q.occurred_at >= '0001-01-01' AND q.occurred_at < '10000-01-01' THEN q.occurred_at END AS occurred_at,
          CASE WHEN q.enqueued_at >= '0001-01-01' AND q.enqueued_at < '10000-01-01' THEN q.enqueued_at END AS enqueued_at";

const RENEW: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
mine AS MATERIALIZED (
    SELECT message_id FROM queue_messages WHERE locked_by = ANY($1) ORDER BY message_id FOR UPDATE SKIP LOCKED
)
UPDATE queue_messages AS q SET available_at = clock_timestamp() + $2 * interval '1 millisecond'
FROM mine, unflushed WHERE q.message_id = mine.message_id";

const ACK: &str = "DELETE FROM queue_messages WHERE message_id = $1 AND locked_by = $2";

const PUT_BACK: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
mine AS MATERIALIZED (
    SELECT q.message_id FROM queue_messages AS q JOIN unnest($1::bigint[], $2::text[]) AS k (message_id, claim_id)
      ON q.message_id = k.message_id AND q.locked_by = k.claim_id
    ORDER BY q.message_id FOR UPDATE OF q SKIP LOCKED
)
UPDATE queue_messages AS q SET deliveries = GREATEST(q.deliveries - 1, 0), locked_by = NULL, available_at = clock_timestamp()
FROM mine, unflushed WHERE q.message_id = mine.message_id";

pub(crate) async fn claim_queue(
    connection: &mut PgConnection,
    claim: &QueueClaim,
) -> Result<Vec<QueueRow>, sqlx::Error> {
    let rows = sqlx::query(CLAIM)
        .bind(&claim.queue)
        .bind(claim.limit)
        .bind(&claim.claim_id)
        .bind(millis(claim.lease))
        .fetch_all(connection)
        .await?;
    let mut messages = rows
        .iter()
        .map(|row| {
            let payload: String = row.try_get("payload")?;
            let message = QueueRow {
                message_id: row.try_get("message_id")?,
                event_id: row.try_get("event_id")?,
                aggregate_id: row.try_get("aggregate_id")?,
                event_type: row.try_get("event_type")?,
                event_version: row.try_get("event_version")?,
                exchange: row.try_get("exchange")?,
                routing_key: row.try_get("routing_key")?,
                envelope: row.try_get("envelope")?,
                payload: payload.into_bytes(),
                headers: HeaderMap::new(),
                occurred_at: row.try_get("occurred_at")?,
                enqueued_at: row.try_get("enqueued_at")?,
                deliveries: row.try_get("deliveries")?,
                defect: None,
            };
            Ok(message.with_headers(row.try_get("headers")?))
        })
        .collect::<Result<Vec<_>, sqlx::Error>>()?;
    // RETURNING promises no order.
    messages.sort_by_key(|message| message.message_id);
    Ok(messages)
}

pub(crate) async fn renew_queue(
    connection: &mut PgConnection,
    claim_ids: &[String],
    lease: Duration,
) -> Result<u64, sqlx::Error> {
    Ok(sqlx::query(RENEW).bind(claim_ids).bind(millis(lease)).execute(connection).await?.rows_affected())
}

pub(crate) async fn ack_queue(connection: &mut PgConnection, key: &QueueKey) -> Result<bool, sqlx::Error> {
    let done = sqlx::query(ACK).bind(key.message_id).bind(&key.claim_id).execute(connection).await?;
    Ok(done.rows_affected() == 1)
}

pub(crate) async fn put_back_queue(connection: &mut PgConnection, keys: &[QueueKey]) -> Result<u64, sqlx::Error> {
    let ids: Vec<i64> = keys.iter().map(|key| key.message_id).collect();
    let claims: Vec<&str> = keys.iter().map(|key| key.claim_id.as_str()).collect();
    Ok(sqlx::query(PUT_BACK).bind(ids).bind(claims).execute(connection).await?.rows_affected())
}

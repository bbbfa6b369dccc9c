//! Taking messages out of a queue: claim, renew, ack, put back (C3).

use std::time::Duration;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::event::HeaderMap;
use crate::queue::{QueueClaim, QueueKey, QueueRow};
use crate::store::sqlite::sql::{array, micros, now, text, time};

/// Asked before anything is written: a look at an empty queue takes no lock.
pub(crate) const DUE: &str =
    concat!("SELECT EXISTS (SELECT 1 FROM queue_messages WHERE queue = ?1 AND available_at <= ", now!(), ")");

/// While a handler's transaction is open this waits for its turn: a message whose handler is at work is gone or free again after it.
pub(crate) const CLAIM: &str = concat!(
    "
UPDATE queue_messages SET deliveries = min(deliveries + 1, 2147483647), locked_by = ?3, available_at = ",
    now!(),
    " + ?4
WHERE message_id IN (SELECT message_id FROM queue_messages WHERE queue = ?1 AND available_at <= ",
    now!(),
    " ORDER BY available_at, message_id LIMIT ?2)
RETURNING message_id, event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload, headers,
          occurred_at, enqueued_at, deliveries"
);

pub(crate) const RENEW: &str = concat!(
    "UPDATE queue_messages SET available_at = ",
    now!(),
    " + ?2 WHERE locked_by IN (SELECT value FROM json_each(?1))"
);

pub(crate) const ACK: &str = "DELETE FROM queue_messages WHERE message_id = ?1 AND locked_by = ?2";

pub(crate) const PUT_BACK: &str = concat!(
    "
WITH mine AS MATERIALIZED (
    SELECT q.message_id FROM json_each(?1) AS j CROSS JOIN queue_messages AS q ON q.message_id = j.value ->> 0
    WHERE q.locked_by = j.value ->> 1
)
UPDATE queue_messages SET deliveries = max(deliveries - 1, 0), locked_by = NULL, available_at = ",
    now!(),
    " WHERE message_id IN (SELECT message_id FROM mine)"
);

pub(crate) async fn claim_queue(
    connection: &mut SqliteConnection,
    claim: &QueueClaim,
) -> Result<Vec<QueueRow>, sqlx::Error> {
    if !sqlx::query_scalar(DUE).bind(&claim.queue).fetch_one(&mut *connection).await? {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(CLAIM)
        .bind(&claim.queue)
        .bind(claim.limit)
        .bind(&claim.claim_id)
        .bind(micros(claim.lease))
        .fetch_all(connection)
        .await?;
    let mut messages = rows.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    // RETURNING promises no order.
    messages.sort_by_key(|message| message.message_id);
    Ok(messages)
}

/// Nothing that somebody may have written by hand fails: one row would stop the queue for ever.
fn decode(row: &SqliteRow) -> Result<QueueRow, sqlx::Error> {
    let when = |column: &str| Ok::<_, sqlx::Error>(time(row.try_get(column)?));
    let message = QueueRow {
        message_id: row.try_get("message_id")?,
        event_id: text(row, "event_id")?,
        aggregate_id: text(row, "aggregate_id")?,
        event_type: text(row, "event_type")?,
        event_version: row.try_get("event_version")?,
        exchange: text(row, "exchange")?,
        routing_key: text(row, "routing_key")?,
        envelope: text(row, "envelope")?,
        payload: row.try_get::<&[u8], _>("payload")?.to_vec(),
        headers: HeaderMap::new(),
        occurred_at: when("occurred_at")?,
        enqueued_at: when("enqueued_at")?,
        deliveries: row.try_get("deliveries")?,
        defect: None,
    };
    Ok(message.with_headers(&text(row, "headers")?))
}

pub(crate) async fn renew_queue(
    connection: &mut SqliteConnection,
    claim_ids: &[String],
    lease: Duration,
) -> Result<u64, sqlx::Error> {
    Ok(sqlx::query(RENEW).bind(array(claim_ids)?).bind(micros(lease)).execute(connection).await?.rows_affected())
}

pub(crate) async fn ack_queue(connection: &mut SqliteConnection, key: &QueueKey) -> Result<bool, sqlx::Error> {
    let done = sqlx::query(ACK).bind(key.message_id).bind(&key.claim_id).execute(connection).await?;
    Ok(done.rows_affected() == 1)
}

pub(crate) async fn put_back_queue(connection: &mut SqliteConnection, keys: &[QueueKey]) -> Result<u64, sqlx::Error> {
    let keys: Vec<(i64, &str)> = keys.iter().map(|key| (key.message_id, key.claim_id.as_str())).collect();
    Ok(sqlx::query(PUT_BACK).bind(array(&keys)?).execute(connection).await?.rows_affected())
}

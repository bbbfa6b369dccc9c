//! Enqueue: one statement for one event, and one for many.

use sqlx::PgConnection;
use sqlx::types::Json;

use crate::error::EnqueueError;
use crate::event::EventId;
use crate::event::draft::Content;
use crate::outbox::columns::{bytes, headers, version};

/// The last line wakes relays that sleep, once for a statement (R5).
const INSERT_ONE: &str = "
INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, event_version, exchange, routing_key, envelope,
                             payload, payload_bytes, headers, occurred_at, unroutable)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::json, $10, $11, $12, $13)
ON CONFLICT (event_id) DO NOTHING
RETURNING (SELECT count(pg_notify(channel, '')) FROM outbox_wakeup WHERE asleep_until > clock_timestamp())";

const INSERT_MANY: &str = "
INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, event_version, exchange, routing_key, envelope,
                             payload, payload_bytes, headers, occurred_at, unroutable)
SELECT event_id, aggregate_type, aggregate_id, event_type, event_version, exchange, routing_key, envelope,
       payload::json, octet_length(payload), headers, occurred_at, unroutable
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::text[], $8::text[],
            $9::text[], $10::jsonb[], $11::timestamptz[], $12::text[])
  AS new (event_id, aggregate_type, aggregate_id, event_type, event_version, exchange, routing_key, envelope,
          payload, headers, occurred_at, unroutable)
ON CONFLICT (event_id) DO NOTHING
RETURNING event_id, (SELECT count(pg_notify(channel, '')) FROM outbox_wakeup WHERE asleep_until > clock_timestamp())";

const DELETE_INSERTED: &str = "DELETE FROM outbox_messages WHERE event_id = ANY($1)";

pub(crate) async fn insert(connection: &mut PgConnection, contents: &[Content]) -> Result<(), EnqueueError> {
    match contents {
        [] => Ok(()),
        [one] => insert_one(connection, one).await,
        many => insert_many(connection, many).await,
    }
}

async fn insert_one(connection: &mut PgConnection, content: &Content) -> Result<(), EnqueueError> {
    let event = &content.descriptor;
    let done = sqlx::query(INSERT_ONE)
        .bind(content.event_id.as_str())
        .bind(event.aggregate)
        .bind(&content.aggregate_id)
        .bind(event.name)
        .bind(version(event.version))
        .bind(event.exchange)
        .bind(event.name)
        .bind(event.envelope.as_str())
        .bind(&content.payload)
        .bind(bytes(&content.payload))
        .bind(Json(headers(content)))
        .bind(content.occurred_at)
        .bind(event.unroutable.as_str())
        .execute(connection)
        .await?;
    if done.rows_affected() == 1 {
        Ok(())
    } else {
        Err(EnqueueError::Duplicate { ids: vec![content.event_id.clone()] })
    }
}

async fn insert_many(connection: &mut PgConnection, contents: &[Content]) -> Result<(), EnqueueError> {
    fn column<'a, T: 'a>(contents: &'a [Content], value: impl Fn(&'a Content) -> T) -> Vec<T> {
        contents.iter().map(value).collect()
    }
    let inserted: Vec<String> = sqlx::query_scalar(INSERT_MANY)
        .bind(column(contents, |c| c.event_id.as_str()))
        .bind(column(contents, |c| c.descriptor.aggregate))
        .bind(column(contents, |c| c.aggregate_id.as_str()))
        .bind(column(contents, |c| c.descriptor.name))
        .bind(column(contents, |c| version(c.descriptor.version)))
        .bind(column(contents, |c| c.descriptor.exchange))
        .bind(column(contents, |c| c.descriptor.name))
        .bind(column(contents, |c| c.descriptor.envelope.as_str()))
        .bind(column(contents, |c| c.payload.as_str()))
        .bind(column(contents, |c| Json(headers(c))))
        .bind(column(contents, |c| c.occurred_at))
        .bind(column(contents, |c| c.descriptor.unroutable.as_str()))
        .fetch_all(&mut *connection)
        .await?;
    if inserted.len() == contents.len() {
        return Ok(());
    }
    // Nothing of this call may stay: the caller may go on with the transaction.
    sqlx::query(DELETE_INSERTED).bind(&inserted).execute(connection).await?;
    let ids: Vec<EventId> = contents
        .iter()
        .filter(|content| !inserted.iter().any(|id| id == content.event_id.as_str()))
        .map(|content| content.event_id.clone())
        .collect();
    Err(EnqueueError::Duplicate { ids })
}

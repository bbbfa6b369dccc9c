//! One event without order.

use sqlx::PgConnection;

use super::{bind, wake};
use crate::error::EnqueueError;
use crate::event::draft::Content;

/// The age of a delayed event counts from the time it is due: `max_age` and dedup windows have nothing to do with how long it was meant to wait.
const INSERT: &str = concat!(
    "
INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, event_version, exchange, routing_key, envelope,
                             payload, payload_bytes, headers, occurred_at, unroutable, max_attempts, max_age, on_failed,
                             backoff_first, backoff_longest, next_attempt_at, enqueued_at)
VALUES ($1, $2, $3, $4, $5, $6, $4, $7, $8::json, $9, $10, $11, $12, $13, $14::bigint * interval '1 millisecond', $15, $16, $17,
        COALESCE($18::timestamptz, clock_timestamp() + $19::bigint * interval '1 microsecond'),
        GREATEST(COALESCE($18::timestamptz, clock_timestamp() + $19::bigint * interval '1 microsecond'), clock_timestamp()))
ON CONFLICT (event_id) DO NOTHING
RETURNING ",
    wake!()
);

pub(super) async fn insert(connection: &mut PgConnection, content: &Content) -> Result<(), EnqueueError> {
    match bind::one(sqlx::query(INSERT), content).fetch_optional(connection).await? {
        Some(_) => Ok(()),
        None => Err(EnqueueError::Duplicate { ids: vec![content.event_id.clone()] }),
    }
}

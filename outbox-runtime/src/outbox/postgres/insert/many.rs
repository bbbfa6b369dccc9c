//! Many events, none of them with order.

use sqlx::{PgConnection, Row};

use super::{bind, wake};
use crate::error::EnqueueError;
use crate::event::draft::Content;
use crate::outbox::columns::among;

const INSERT: &str = concat!(
    "
INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, event_version, exchange, routing_key, envelope,
                             payload, payload_bytes, headers, occurred_at, unroutable, max_attempts, max_age, on_failed,
                             backoff_first, backoff_longest, next_attempt_at, enqueued_at)
SELECT event_id, aggregate_type, aggregate_id, event_type, event_version, exchange, event_type, envelope,
       payload::json, octet_length(payload), headers, occurred_at, unroutable, max_attempts, max_age * interval '1 millisecond', on_failed,
       backoff_first, backoff_longest, COALESCE(at, clock_timestamp() + delay * interval '1 microsecond'),
       GREATEST(COALESCE(at, clock_timestamp() + delay * interval '1 microsecond'), clock_timestamp())
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::text[], $8::text[], $9::jsonb[],
            $10::timestamptz[], $11::text[], $12::integer[], $13::bigint[], $14::text[], $15::integer[], $16::integer[],
            $17::timestamptz[], $18::bigint[])
  AS new (event_id, aggregate_type, aggregate_id, event_type, event_version, exchange, envelope, payload, headers,
          occurred_at, unroutable, max_attempts, max_age, on_failed, backoff_first, backoff_longest, at, delay)
ON CONFLICT (event_id) DO NOTHING
RETURNING event_id, ",
    wake!()
);

const DELETE_INSERTED: &str = "DELETE FROM outbox_messages WHERE event_id = ANY($1)";

pub(super) async fn insert(connection: &mut PgConnection, contents: &[Content]) -> Result<(), EnqueueError> {
    let rows = bind::many(sqlx::query(INSERT), contents).fetch_all(&mut *connection).await?;
    if rows.len() == contents.len() {
        return Ok(());
    }
    let inserted = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
    // Nothing of this call may stay: the caller may go on with the transaction.
    sqlx::query(DELETE_INSERTED).bind(&inserted).execute(connection).await?;
    Err(EnqueueError::Duplicate { ids: among(contents, &inserted, false) })
}

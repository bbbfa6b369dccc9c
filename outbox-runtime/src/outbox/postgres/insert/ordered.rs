//! One event with order: its number comes from the counter of its key, in the same statement (S3).

use sqlx::{PgConnection, Row};

use super::{bind, wake};
use crate::error::EnqueueError;
use crate::event::draft::Content;

/// The counter's row is locked until the caller's commit: the order of the numbers is the order of the commits. An id that is there already is not
/// counted.
const INSERT: &str = concat!(
    "
WITH numbered AS (
    INSERT INTO outbox_sequences AS s (aggregate_type, aggregate_id, last_sequence)
    SELECT $2::text, $3::text, 1 WHERE NOT EXISTS (SELECT FROM outbox_messages WHERE event_id = $1)
    ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET last_sequence = s.last_sequence + 1
    RETURNING last_sequence
),
inserted AS (
    INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, event_version, exchange, routing_key, envelope,
                                 payload, payload_bytes, headers, occurred_at, unroutable, max_attempts, max_age, on_failed,
                                 backoff_first, backoff_longest, next_attempt_at)
    SELECT $1::text, $2::text, $3::text, last_sequence, $4::text, $5::integer, $6::text, $4::text, $7::text,
           $8::json, $9::integer, $10::jsonb, $11::timestamptz, $12::text, $13::integer, $14::bigint * interval '1 millisecond', $15::text,
           $16::integer, $17::integer, COALESCE($18::timestamptz, clock_timestamp() + $19::bigint * interval '1 microsecond')
    FROM numbered
    ON CONFLICT (event_id) DO NOTHING
    RETURNING ",
    wake!(),
    " AS woken
)
SELECT (SELECT last_sequence FROM numbered) AS number, (SELECT woken FROM inserted) AS woken"
);

/// Takes back what a statement wrote that met an id which somebody else had just committed: its rows, and its numbers, so that there is no gap.
/// Inside a transaction nobody else can have counted since; outside of one the number stays if somebody has: a gap does no harm, the same number
/// twice would.
const TAKE_BACK: &str = "
WITH written AS (DELETE FROM outbox_messages WHERE event_id = ANY($1))
UPDATE outbox_sequences AS s SET last_sequence = s.last_sequence - taken.count
FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS taken (aggregate_type, aggregate_id, last_sequence, count)
WHERE s.aggregate_type = taken.aggregate_type AND s.aggregate_id = taken.aggregate_id AND s.last_sequence = taken.last_sequence";

/// Numbers that a statement took from the counters, key by key.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) aggregate_types: Vec<String>,
    pub(super) aggregate_ids: Vec<String>,
    pub(super) last_sequences: Vec<i64>,
    pub(super) counts: Vec<i64>,
}

pub(super) async fn insert(connection: &mut PgConnection, content: &Content) -> Result<(), EnqueueError> {
    let row = bind::one(sqlx::query(INSERT), content).fetch_one(&mut *connection).await?;
    if row.try_get::<Option<i64>, _>("woken")?.is_some() {
        return Ok(());
    }
    if let Some(number) = row.try_get("number")? {
        let taken = Taken {
            aggregate_types: vec![content.descriptor.aggregate.to_owned()],
            aggregate_ids: vec![content.aggregate_id.clone()],
            last_sequences: vec![number],
            counts: vec![1],
        };
        take_back(connection, &[], taken).await?;
    }
    Err(EnqueueError::Duplicate { ids: vec![content.event_id.clone()] })
}

pub(super) async fn take_back(
    connection: &mut PgConnection,
    inserted: &[String],
    taken: Taken,
) -> Result<(), sqlx::Error> {
    sqlx::query(TAKE_BACK)
        .bind(inserted)
        .bind(taken.aggregate_types)
        .bind(taken.aggregate_ids)
        .bind(taken.last_sequences)
        .bind(taken.counts)
        .execute(connection)
        .await?;
    Ok(())
}

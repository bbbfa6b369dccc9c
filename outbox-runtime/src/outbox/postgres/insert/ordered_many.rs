//! Many events, some of them with order: the numbers of all keys come from their counters, in the same statement (S3).

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::ordered::{Taken, take_back};
use super::{bind, wake};
use crate::error::EnqueueError;
use crate::event::draft::Content;
use crate::outbox::columns::among;

/// Each key is counted once, in the order of the keys: two statements never wait for each other in a circle. The events of one key have their
/// numbers in the order of the drafts. If an id is there already nothing is counted or written.
const INSERT: &str = concat!(
    "
WITH new AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::text[], $8::text[], $9::jsonb[],
                         $10::timestamptz[], $11::text[], $12::integer[], $13::bigint[], $14::text[], $15::integer[], $16::integer[],
                         $17::timestamptz[], $18::bigint[], $19::boolean[]) WITH ORDINALITY
      AS new (event_id, aggregate_type, aggregate_id, event_type, event_version, exchange, envelope, payload, headers,
              occurred_at, unroutable, max_attempts, max_age, on_failed, backoff_first, backoff_longest, at, delay, ordered, place)
),
known AS MATERIALIZED (SELECT event_id FROM outbox_messages WHERE event_id = ANY($1)),
numbered AS (
    INSERT INTO outbox_sequences AS s (aggregate_type, aggregate_id, last_sequence)
    SELECT aggregate_type, aggregate_id, count(*) FROM new WHERE ordered AND NOT EXISTS (SELECT FROM known)
    GROUP BY aggregate_type, aggregate_id ORDER BY aggregate_type COLLATE \"C\", aggregate_id COLLATE \"C\"
    ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET last_sequence = s.last_sequence + excluded.last_sequence
    RETURNING aggregate_type, aggregate_id, last_sequence
),
inserted AS (
    INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, event_version, exchange, routing_key, envelope,
                                 payload, payload_bytes, headers, occurred_at, unroutable, max_attempts, max_age, on_failed,
                                 backoff_first, backoff_longest, next_attempt_at, enqueued_at)
    SELECT new.event_id, new.aggregate_type, new.aggregate_id,
           numbered.last_sequence - count(*) OVER one_key + row_number() OVER (one_key ORDER BY new.place),
           event_type, event_version, exchange, event_type, envelope,
           payload::json, octet_length(payload), headers, occurred_at, unroutable, max_attempts, max_age * interval '1 millisecond', on_failed,
           backoff_first, backoff_longest, COALESCE(at, clock_timestamp() + delay * interval '1 microsecond'),
       GREATEST(COALESCE(at, clock_timestamp() + delay * interval '1 microsecond'), clock_timestamp())
    FROM new LEFT JOIN numbered
      ON new.ordered AND numbered.aggregate_type = new.aggregate_type AND numbered.aggregate_id = new.aggregate_id
    WHERE NOT EXISTS (SELECT FROM known)
    WINDOW one_key AS (PARTITION BY new.ordered, new.aggregate_type, new.aggregate_id)
    ORDER BY new.place
    ON CONFLICT (event_id) DO NOTHING
    RETURNING event_id, ",
    wake!(),
    " AS woken
)
SELECT ARRAY(SELECT event_id FROM known) AS known, ARRAY(SELECT event_id FROM inserted) AS inserted, (SELECT max(woken) FROM inserted) AS woken,
       ARRAY(SELECT aggregate_type FROM numbered) AS aggregate_types, ARRAY(SELECT aggregate_id FROM numbered) AS aggregate_ids,
       ARRAY(SELECT last_sequence FROM numbered) AS last_sequences"
);

pub(super) async fn insert(connection: &mut PgConnection, contents: &[Content]) -> Result<(), EnqueueError> {
    let ordered: Vec<bool> = contents.iter().map(|content| content.descriptor.ordered).collect();
    let row = bind::many(sqlx::query(INSERT), contents).bind(ordered).fetch_one(&mut *connection).await?;
    let inserted: Vec<String> = row.try_get("inserted")?;
    if inserted.len() == contents.len() {
        return Ok(());
    }
    let known: Vec<String> = row.try_get("known")?;
    if !known.is_empty() {
        return Err(EnqueueError::Duplicate { ids: among(contents, &known, true) });
    }
    // Nothing of this call may stay: the caller may go on with the transaction.
    take_back(connection, &inserted, taken(&row, contents)?).await?;
    Err(EnqueueError::Duplicate { ids: among(contents, &inserted, false) })
}

fn taken(row: &PgRow, contents: &[Content]) -> Result<Taken, sqlx::Error> {
    let aggregate_types: Vec<String> = row.try_get("aggregate_types")?;
    let aggregate_ids: Vec<String> = row.try_get("aggregate_ids")?;
    let mut counts: HashMap<(&str, &str), i64> = HashMap::new();
    for content in contents.iter().filter(|content| content.descriptor.ordered) {
        *counts.entry((content.descriptor.aggregate, &content.aggregate_id)).or_default() += 1;
    }
    let count = |(aggregate, id): (&String, &String)| counts.get(&(aggregate.as_str(), id.as_str())).copied();
    let counts = aggregate_types.iter().zip(&aggregate_ids).map(|key| count(key).unwrap_or_default()).collect();
    Ok(Taken { counts, last_sequences: row.try_get("last_sequences")?, aggregate_types, aggregate_ids })
}

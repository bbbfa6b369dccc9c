//! Enqueue: one statement for one event, and one for many.

use serde::Serialize;
use sqlx::SqliteConnection;

use crate::error::EnqueueError;
use crate::event::draft::Content;
use crate::outbox::columns::{among, backoff, bytes, due, headers, max_attempts, version};
use crate::store::sqlite::sql::{array, micros, now};

/// The age of a delayed event counts from the time it is due.
const INSERT_ONE: &str = concat!(
    "
INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, event_version, exchange, routing_key, envelope,
                             payload, payload_bytes, headers, occurred_at, unroutable, max_attempts, max_age, on_failed,
                             backoff_first, backoff_longest, next_attempt_at, enqueued_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?5, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, COALESCE(?19, ",
    now!(),
    " + ?20), max(COALESCE(?19, ",
    now!(),
    " + ?20), ",
    now!(),
    "))
ON CONFLICT (event_id) DO NOTHING"
);

/// All or none, also on a connection without a transaction: one statement, which inserts nothing if one of the ids is there. The events of one key
/// have their numbers in the order of the drafts.
const INSERT_MANY: &str = concat!(
    "
INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, event_version, exchange, routing_key, envelope,
                             payload, payload_bytes, headers, occurred_at, unroutable, max_attempts, max_age, on_failed,
                             backoff_first, backoff_longest, next_attempt_at, enqueued_at)
SELECT value ->> 'event_id', value ->> 'aggregate_type', value ->> 'aggregate_id', value ->> 'sequence', value ->> 'event_type',
       value ->> 'event_version', value ->> 'exchange', value ->> 'event_type', value ->> 'envelope', value ->> 'payload',
       value ->> 'payload_bytes', value ->> 'headers', value ->> 'occurred_at', value ->> 'unroutable', value ->> 'max_attempts',
       value ->> 'max_age', value ->> 'on_failed', value ->> 'backoff_first', value ->> 'backoff_longest',
       COALESCE(value ->> 'at', ",
    now!(),
    " + (value ->> 'delay')), max(COALESCE(value ->> 'at', ",
    now!(),
    " + (value ->> 'delay')), ",
    now!(),
    ")
FROM json_each(?1)
WHERE NOT EXISTS (SELECT 1 FROM outbox_messages WHERE event_id IN (SELECT value FROM json_each(?2)))
ORDER BY key"
);

const KNOWN: &str = "SELECT event_id FROM outbox_messages WHERE event_id IN (SELECT value FROM json_each(?1))";

/// A trigger puts the next number of the key in its place, in the same statement (S3).
const NUMBER_IT: i64 = -1;

/// A row as `json_each` hands it to the statement; texts in it are texts of their own.
#[derive(Serialize)]
struct New<'a> {
    event_id: &'a str,
    aggregate_type: &'a str,
    aggregate_id: &'a str,
    sequence: Option<i64>,
    event_type: &'a str,
    event_version: i32,
    exchange: &'a str,
    envelope: &'a str,
    payload: &'a str,
    payload_bytes: i32,
    headers: String,
    occurred_at: i64,
    unroutable: &'a str,
    max_attempts: i32,
    max_age: Option<i64>,
    on_failed: &'a str,
    backoff_first: i32,
    backoff_longest: i32,
    at: Option<i64>,
    delay: i64,
}

pub(crate) async fn insert(connection: &mut SqliteConnection, contents: &[Content]) -> Result<(), EnqueueError> {
    match contents {
        [] => Ok(()),
        [one] => insert_one(connection, one).await,
        many => insert_many(connection, many).await,
    }
}

fn new(content: &Content) -> Result<New<'_>, sqlx::Error> {
    let event = &content.descriptor;
    let (backoff_first, backoff_longest) = backoff(event);
    let (at, delay) = due(content);
    Ok(New {
        event_id: content.event_id.as_str(),
        aggregate_type: event.aggregate,
        aggregate_id: &content.aggregate_id,
        sequence: event.ordered.then_some(NUMBER_IT),
        event_type: event.name,
        event_version: version(event.version),
        exchange: event.exchange,
        envelope: event.envelope.as_str(),
        payload: &content.payload,
        payload_bytes: bytes(&content.payload),
        headers: serde_json::to_string(&headers(content)).map_err(|error| sqlx::Error::Encode(Box::new(error)))?,
        occurred_at: content.occurred_at.timestamp_micros(),
        unroutable: event.unroutable.as_str(),
        max_attempts: max_attempts(event),
        max_age: event.max_age.map(micros),
        on_failed: event.on_failed.as_str(),
        backoff_first,
        backoff_longest,
        at: at.map(|time| time.timestamp_micros()),
        delay: micros(delay),
    })
}

async fn insert_one(connection: &mut SqliteConnection, content: &Content) -> Result<(), EnqueueError> {
    let new = new(content)?;
    let done = sqlx::query(INSERT_ONE)
        .bind(new.event_id)
        .bind(new.aggregate_type)
        .bind(new.aggregate_id)
        .bind(new.sequence)
        .bind(new.event_type)
        .bind(new.event_version)
        .bind(new.exchange)
        .bind(new.envelope)
        .bind(new.payload)
        .bind(new.payload_bytes)
        .bind(new.headers)
        .bind(new.occurred_at)
        .bind(new.unroutable)
        .bind(new.max_attempts)
        .bind(new.max_age)
        .bind(new.on_failed)
        .bind(new.backoff_first)
        .bind(new.backoff_longest)
        .bind(new.at)
        .bind(new.delay)
        .execute(connection)
        .await?;
    if done.rows_affected() == 1 {
        Ok(())
    } else {
        Err(EnqueueError::Duplicate { ids: vec![content.event_id.clone()] })
    }
}

async fn insert_many(connection: &mut SqliteConnection, contents: &[Content]) -> Result<(), EnqueueError> {
    let rows = array(&contents.iter().map(new).collect::<Result<Vec<_>, _>>()?)?;
    let ids = array(&contents.iter().map(|content| content.event_id.as_str()).collect::<Vec<_>>())?;
    let done = sqlx::query(INSERT_MANY).bind(rows).bind(&ids).execute(&mut *connection).await?;
    if done.rows_affected() > 0 {
        return Ok(());
    }
    let known: Vec<String> = sqlx::query_scalar(KNOWN).bind(ids).fetch_all(connection).await?;
    Err(EnqueueError::Duplicate { ids: among(contents, &known, true) })
}

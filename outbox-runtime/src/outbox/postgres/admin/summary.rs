//! The columns of an event without its body, and how they are read. Nothing that was written by hand fails.

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::admin::{Event, EventStatus};
use crate::event::{HeaderMap, OnFailed, Unroutable};
use crate::outbox::admin_time;

/// A time in microseconds since 1970, the infinite ones as the greatest and the least number.
macro_rules! micros {
    ($column:literal) => {
        concat!(
            "CASE ",
            $column,
            " WHEN 'infinity' THEN 9223372036854775807 WHEN '-infinity' THEN (-9223372036854775807 - 1) ELSE (extract(epoch FROM ",
            $column,
            ") * 1000000)::bigint END"
        )
    };
}
pub(super) use micros;

/// Of a row with the alias `o`.
pub(super) const SUMMARY: &str = concat!(
    "o.event_id, o.event_type, o.event_version, o.aggregate_type, o.aggregate_id, o.sequence, o.exchange, o.routing_key, o.envelope, \
     o.payload_bytes, o.status, o.attempt_count, o.max_attempts, o.unknown_count, o.last_error, o.skipped, o.unroutable, o.on_failed, o.locked_by, ",
    micros!("o.next_attempt_at"),
    " AS next_attempt, ",
    micros!("o.locked_until"),
    " AS locked, ",
    micros!("o.occurred_at"),
    " AS occurred, ",
    micros!("o.enqueued_at"),
    " AS enqueued, ",
    micros!("o.published_at"),
    " AS published"
);

pub(super) fn status(row: &PgRow, column: &str) -> Result<EventStatus, sqlx::Error> {
    let name: String = row.try_get(column)?;
    EventStatus::from_name(&name).ok_or_else(|| sqlx::Error::Decode(format!("an unknown status {name:?}").into()))
}

pub(super) fn event(row: &PgRow) -> Result<Event, sqlx::Error> {
    let time = |column: &str| Ok::<_, sqlx::Error>(row.try_get::<Option<i64>, _>(column)?.and_then(admin_time));
    let status = status(row, "status")?;
    let unroutable: String = row.try_get("unroutable")?;
    let on_failed: String = row.try_get("on_failed")?;
    Ok(Event {
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        event_version: row.try_get("event_version")?,
        aggregate_type: row.try_get("aggregate_type")?,
        aggregate_id: row.try_get("aggregate_id")?,
        sequence: row.try_get("sequence")?,
        exchange: row.try_get("exchange")?,
        routing_key: row.try_get("routing_key")?,
        envelope: row.try_get("envelope")?,
        payload_bytes: row.try_get("payload_bytes")?,
        status,
        attempt_count: row.try_get("attempt_count")?,
        max_attempts: row.try_get("max_attempts")?,
        unknown_count: row.try_get("unknown_count")?,
        last_error: row.try_get("last_error")?,
        blocked: status == EventStatus::Pending && row.try_get::<i64, _>("next_attempt")? == i64::MAX,
        skipped: row.try_get("skipped")?,
        unroutable: Unroutable::from_name(&unroutable).unwrap_or_default(),
        on_failed: OnFailed::from_name(&on_failed).unwrap_or_default(),
        next_attempt_at: time("next_attempt")?,
        locked_by: row.try_get("locked_by")?,
        locked_until: time("locked")?,
        occurred_at: time("occurred")?,
        enqueued_at: time("enqueued")?,
        published_at: time("published")?,
        waits_for: None,
        headers: HeaderMap::new(),
        payload: None,
    })
}

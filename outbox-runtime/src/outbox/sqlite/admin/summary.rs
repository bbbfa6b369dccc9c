//! The columns of an event without its body, and how they are read. Nothing that was written by hand fails.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::admin::{Event, EventStatus};
use crate::event::{HeaderMap, OnFailed, Unroutable};
use crate::outbox::admin_time;
use crate::store::sqlite::sql::{optional_text, text};

pub(super) fn status(row: &SqliteRow, column: &str) -> Result<EventStatus, sqlx::Error> {
    let name = text(row, column)?;
    EventStatus::from_name(&name).ok_or_else(|| sqlx::Error::Decode(format!("an unknown status {name:?}").into()))
}

pub(super) fn event(row: &SqliteRow) -> Result<Event, sqlx::Error> {
    let time = |column: &str| Ok::<_, sqlx::Error>(row.try_get::<Option<i64>, _>(column)?.and_then(admin_time));
    let status = status(row, "status")?;
    Ok(Event {
        event_id: text(row, "event_id")?,
        event_type: text(row, "event_type")?,
        event_version: row.try_get("event_version")?,
        aggregate_type: text(row, "aggregate_type")?,
        aggregate_id: text(row, "aggregate_id")?,
        sequence: row.try_get("sequence")?,
        exchange: text(row, "exchange")?,
        routing_key: text(row, "routing_key")?,
        envelope: text(row, "envelope")?,
        payload_bytes: row.try_get("payload_bytes")?,
        status,
        attempt_count: row.try_get("attempt_count")?,
        max_attempts: row.try_get("max_attempts")?,
        unknown_count: row.try_get("unknown_count")?,
        last_error: optional_text(row, "last_error")?,
        blocked: status == EventStatus::Pending && row.try_get::<i64, _>("next_attempt_at")? == i64::MAX,
        skipped: row.try_get("skipped")?,
        unroutable: Unroutable::from_name(&text(row, "unroutable")?).unwrap_or_default(),
        on_failed: OnFailed::from_name(&text(row, "on_failed")?).unwrap_or_default(),
        next_attempt_at: time("next_attempt_at")?,
        locked_by: optional_text(row, "locked_by")?,
        locked_until: time("locked_until")?,
        occurred_at: time("occurred_at")?,
        enqueued_at: time("enqueued_at")?,
        published_at: time("published_at")?,
        waits_for: None,
        headers: HeaderMap::new(),
        payload: None,
    })
}

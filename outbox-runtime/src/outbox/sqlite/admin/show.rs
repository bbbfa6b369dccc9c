//! Everything about one event.

use sqlx::SqliteConnection;

use super::summary::event;
use crate::admin::Event;
use crate::store::sqlite::sql::{optional_text, text};

pub(crate) const SHOW: &str = "
SELECT o.event_id, o.event_type, o.event_version, o.aggregate_type, o.aggregate_id, o.sequence, o.exchange, o.routing_key, o.envelope,
       o.payload_bytes, o.status, o.attempt_count, o.max_attempts, o.unknown_count, o.last_error, o.skipped, o.unroutable, o.on_failed,
       o.locked_by, o.next_attempt_at, o.locked_until, o.occurred_at, o.enqueued_at, o.published_at, o.headers,
       CASE WHEN ?2 THEN o.payload END AS payload,
       (SELECT h.event_id FROM outbox_messages AS h
        WHERE o.status <> 'Published' AND h.aggregate_type = o.aggregate_type AND h.aggregate_id = o.aggregate_id AND h.sequence < o.sequence
          AND h.sequence IS NOT NULL AND h.status <> 'Published' AND NOT h.skipped
        ORDER BY h.sequence LIMIT 1) AS waits_for
FROM outbox_messages AS o WHERE o.event_id = ?1";

pub(crate) async fn show(
    connection: &mut SqliteConnection,
    event_id: &str,
    payload: bool,
) -> Result<Option<Event>, sqlx::Error> {
    let Some(row) = sqlx::query(SHOW).bind(event_id).bind(payload).fetch_optional(connection).await? else {
        return Ok(None);
    };
    Ok(Some(Event {
        waits_for: optional_text(&row, "waits_for")?,
        headers: serde_json::from_str(&text(&row, "headers")?).unwrap_or_default(),
        payload: optional_text(&row, "payload")?,
        ..event(&row)?
    }))
}

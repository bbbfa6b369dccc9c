//! Everything about one event.

use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::summary::{SUMMARY, event};
use crate::admin::Event;

pub(crate) async fn show(
    connection: &mut PgConnection,
    event_id: &str,
    payload: bool,
) -> Result<Option<Event>, sqlx::Error> {
    let sql = AssertSqlSafe(format!(
        "
SELECT {SUMMARY}, o.headers::text AS headers, CASE WHEN $2 THEN o.payload::text END AS payload,
       (SELECT h.event_id FROM outbox_messages AS h
        WHERE o.status <> 'Published' AND h.aggregate_type = o.aggregate_type AND h.aggregate_id = o.aggregate_id AND h.sequence < o.sequence
          AND h.sequence IS NOT NULL AND h.status <> 'Published' AND NOT h.skipped
        ORDER BY h.sequence LIMIT 1) AS waits_for
FROM outbox_messages AS o WHERE o.event_id = $1"
    ));
    let Some(row) = sqlx::query(sql).bind(event_id).bind(payload).fetch_optional(connection).await? else {
        return Ok(None);
    };
    let headers: String = row.try_get("headers")?;
    Ok(Some(Event {
        waits_for: row.try_get("waits_for")?,
        headers: serde_json::from_str(&headers).unwrap_or_default(),
        payload: row.try_get("payload")?,
        ..event(&row)?
    }))
}

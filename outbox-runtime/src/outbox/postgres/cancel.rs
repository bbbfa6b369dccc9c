//! Cancel: an event that no broker can have is deleted.

use sqlx::PgConnection;

use crate::event::EventId;
use crate::outbox::{EventStatus, Standing};

/// The row's lock decides between a relay's claim and this: whoever comes second finds
/// the row as the first has left it.
pub(crate) const CANCEL: &str =
    "DELETE FROM outbox_messages WHERE event_id = $1 AND status = 'Pending' AND unknown_count = 0";

pub(crate) const STANDING: &str = "SELECT status, unknown_count FROM outbox_messages WHERE event_id = $1";

pub(crate) async fn cancel(connection: &mut PgConnection, event_id: &EventId) -> Result<bool, sqlx::Error> {
    Ok(sqlx::query(CANCEL).bind(event_id.as_str()).execute(connection).await?.rows_affected() > 0)
}

pub(crate) async fn standing(
    connection: &mut PgConnection,
    event_id: &EventId,
) -> Result<Option<Standing>, sqlx::Error> {
    let row: Option<(String, i32)> =
        sqlx::query_as(STANDING).bind(event_id.as_str()).fetch_optional(connection).await?;
    let Some((status, unknown_count)) = row else { return Ok(None) };
    let status = EventStatus::from_name(&status)
        .ok_or_else(|| sqlx::Error::Decode(format!("the status {status:?} of an event").into()))?;
    Ok(Some(Standing { status, unknown_count }))
}

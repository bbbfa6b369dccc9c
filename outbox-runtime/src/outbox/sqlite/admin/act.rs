//! An action on single rows, and the heads of keys that may go on after it. They run in one transaction that began with `IMMEDIATE`: what is
//! seen in it stays true until its end.

use sqlx::{Row, SqliteConnection};

use super::summary::status;
use crate::admin::{Action, EventStatus, Found};
use crate::store::sqlite::sql::{array, now, optional_text, text};

pub(crate) const SEEN: &str = concat!(
    "
SELECT o.rowid AS number, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.sequence IS NOT NULL AS ordered, o.status, o.locked_by,
       o.locked_until, o.status = 'Processing' AND o.locked_until >= ",
    now!(),
    " AS leased
FROM outbox_messages AS o WHERE o.event_id IN (SELECT value FROM json_each(?1)) ORDER BY o.event_id"
);

pub(crate) const RETRY: &str = concat!(
    "UPDATE outbox_messages SET status = 'Pending', attempt_count = 0, locked_by = NULL, locked_until = NULL,
     unknown_count = CASE status WHEN 'Processing' THEN min(unknown_count + 1, 2147483647) ELSE unknown_count END,
     next_attempt_at = ",
    now!(),
    " WHERE rowid IN (SELECT value FROM json_each(?1))"
);

pub(crate) const FAIL: &str = "
UPDATE outbox_messages SET status = 'Failed', last_error = ?2, skipped = skipped OR on_failed = 'skip', locked_by = NULL, locked_until = NULL,
    unknown_count = CASE status WHEN 'Processing' THEN min(unknown_count + 1, 2147483647) ELSE unknown_count END
WHERE rowid IN (SELECT value FROM json_each(?1))";

pub(crate) const DELETE: &str = "DELETE FROM outbox_messages WHERE rowid IN (SELECT value FROM json_each(?1))";

/// One that waits has left its line with this: nobody pulls it forward any more, it looks for itself.
pub(crate) const SKIP: &str = concat!(
    "
UPDATE outbox_messages SET skipped = 1, status = CASE status WHEN 'Processing' THEN 'Pending' ELSE status END, locked_by = NULL, locked_until = NULL,
    next_attempt_at = CASE next_attempt_at WHEN 9223372036854775807 THEN ",
    now!(),
    " ELSE next_attempt_at END,
    unknown_count = CASE status WHEN 'Processing' THEN min(unknown_count + 1, 2147483647) ELSE unknown_count END
WHERE rowid IN (SELECT value FROM json_each(?1))"
);

pub(crate) const REPLAY: &str = concat!(
    "UPDATE outbox_messages SET status = 'Pending', published_at = NULL, attempt_count = 0, unknown_count = max(unknown_count, 1), last_error = NULL, skipped = 0,
     next_attempt_at = ",
    now!(),
    " WHERE rowid IN (SELECT value FROM json_each(?1))"
);

/// The first of a key's line, if it still waits to be looked at.
pub(crate) const HEADS: &str = "
SELECT number FROM (
    SELECT (SELECT o.rowid FROM outbox_messages AS o
            WHERE o.aggregate_type = j.value ->> 0 AND o.aggregate_id = j.value ->> 1
              AND o.sequence IS NOT NULL AND o.status <> 'Published' AND NOT o.skipped
            ORDER BY o.sequence LIMIT 1) AS number
    FROM json_each(?1) AS j
) WHERE number IS NOT NULL";

pub(crate) const PULL: &str = concat!(
    "UPDATE outbox_messages SET next_attempt_at = ",
    now!(),
    " WHERE rowid IN (SELECT value FROM json_each(?1)) AND status = 'Pending' AND next_attempt_at = 9223372036854775807"
);

pub(crate) async fn act(
    connection: &mut SqliteConnection,
    action: &Action,
    ids: &[String],
) -> Result<Vec<Found>, sqlx::Error> {
    let rows = sqlx::query(SEEN).bind(array(ids)?).fetch_all(&mut *connection).await?;
    let (mut found, mut numbers) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in &rows {
        let (status, leased, ordered): (EventStatus, bool, bool) =
            (status(row, "status")?, row.try_get("leased")?, row.try_get("ordered")?);
        let done = action.is_for(status) && !leased && (ordered || !action.needs_order());
        if done {
            numbers.push(row.try_get::<i64, _>("number")?);
        }
        found.push(Found {
            event_id: text(row, "event_id")?,
            event_type: text(row, "event_type")?,
            aggregate_type: text(row, "aggregate_type")?,
            aggregate_id: text(row, "aggregate_id")?,
            ordered,
            status,
            leased,
            locked_by: optional_text(row, "locked_by")?,
            locked_until: row.try_get("locked_until")?,
            done,
        });
    }
    if numbers.is_empty() {
        return Ok(found);
    }
    let numbers = array(&numbers)?;
    let change = match action {
        Action::RetryNow => sqlx::query(RETRY).bind(numbers),
        Action::Fail { error } => sqlx::query(FAIL).bind(numbers).bind(error),
        Action::Discard => sqlx::query(DELETE).bind(numbers),
        Action::Skip => sqlx::query(SKIP).bind(numbers),
        Action::Replay => sqlx::query(REPLAY).bind(numbers),
    };
    change.execute(connection).await?;
    Ok(found)
}

pub(crate) async fn pull(connection: &mut SqliteConnection, keys: &[(String, String)]) -> Result<u64, sqlx::Error> {
    let heads: Vec<i64> = sqlx::query_scalar(HEADS).bind(array(keys)?).fetch_all(&mut *connection).await?;
    Ok(sqlx::query(PULL).bind(array(&heads)?).execute(connection).await?.rows_affected())
}

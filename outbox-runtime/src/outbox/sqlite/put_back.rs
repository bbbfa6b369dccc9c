//! Rows that nobody works on any more: expired leases, claims of a relay that stops, lines whose head waits for nothing (S4, R6).

use sqlx::{Row, SqliteConnection};

use crate::outbox::LineCursor;
use crate::store::sqlite::sql::{array, now, text};

/// Asked before anything is written, here and below: what finds nothing takes no lock.
pub(crate) const EXPIRED: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM outbox_messages WHERE status = 'Processing' AND locked_until < ",
    now!(),
    ")"
);

/// Whoever held them may have published them.
pub(crate) const PUT_BACK_EXPIRED: &str = concat!(
    "
UPDATE outbox_messages SET status = 'Pending', locked_by = NULL, locked_until = NULL, next_attempt_at = ",
    now!(),
    ", unknown_count = min(unknown_count + 1, 2147483647)
WHERE rowid IN (SELECT rowid FROM outbox_messages WHERE status = 'Processing' AND locked_until < ",
    now!(),
    " ORDER BY locked_until LIMIT ?1)"
);

pub(crate) const RELEASE: &str = concat!(
    "
UPDATE outbox_messages SET status = 'Pending', locked_by = NULL, locked_until = NULL, next_attempt_at = ",
    now!(),
    ", unknown_count = min(unknown_count + 1, 2147483647)
WHERE status = 'Processing' AND locked_by IN (SELECT value FROM json_each(?1))"
);

/// Steps from key to key along the index of the lines, and looks at the first row of each: one that waits, waits for nothing. Somebody deleted
/// the row before it.
pub(crate) const HEADS: &str = "
WITH RECURSIVE heads (number, aggregate_type, aggregate_id, waits) AS (
    SELECT * FROM (SELECT rowid, aggregate_type, aggregate_id, status = 'Pending' AND next_attempt_at = 9223372036854775807
     FROM outbox_messages INDEXED BY outbox_messages_line
     WHERE sequence IS NOT NULL AND status <> 'Published' AND NOT skipped AND (aggregate_type, aggregate_id, sequence) > (?1, ?2, ?3)
     ORDER BY aggregate_type, aggregate_id, sequence LIMIT 1)
    UNION ALL
    SELECT o.rowid, o.aggregate_type, o.aggregate_id, o.status = 'Pending' AND o.next_attempt_at = 9223372036854775807
    FROM heads CROSS JOIN outbox_messages AS o ON o.rowid = (
        SELECT m.rowid FROM outbox_messages AS m INDEXED BY outbox_messages_line
        WHERE m.sequence IS NOT NULL AND m.status <> 'Published' AND NOT m.skipped
          AND (m.aggregate_type, m.aggregate_id, m.sequence) > (heads.aggregate_type, heads.aggregate_id, 9223372036854775807)
        ORDER BY m.aggregate_type, m.aggregate_id, m.sequence LIMIT 1)
    LIMIT ?4
)
SELECT number, aggregate_type, aggregate_id, waits FROM heads";

pub(crate) const RELEASE_WAITING: &str = concat!(
    "UPDATE outbox_messages SET next_attempt_at = ",
    now!(),
    " WHERE status = 'Pending' AND next_attempt_at = 9223372036854775807 AND rowid IN (SELECT value FROM json_each(?1))"
);

pub(crate) async fn put_back_expired(connection: &mut SqliteConnection, limit: i64) -> Result<u64, sqlx::Error> {
    if !sqlx::query_scalar(EXPIRED).fetch_one(&mut *connection).await? {
        return Ok(0);
    }
    Ok(sqlx::query(PUT_BACK_EXPIRED).bind(limit).execute(connection).await?.rows_affected())
}

pub(crate) async fn release(connection: &mut SqliteConnection, claim_ids: &[String]) -> Result<u64, sqlx::Error> {
    Ok(sqlx::query(RELEASE).bind(array(claim_ids)?).execute(connection).await?.rows_affected())
}

/// Looks at the next `limit` keys; returns how many rows it released, and where to go on (`None`: from the beginning). The caller has the turn
/// to write: a head that waits is still one when it is released.
pub(crate) async fn release_waiting(
    connection: &mut SqliteConnection,
    after: Option<&LineCursor>,
    limit: i64,
) -> Result<(u64, Option<LineCursor>), sqlx::Error> {
    let (aggregate_type, aggregate_id) =
        after.map_or(("", ""), |cursor| (cursor.aggregate_type.as_str(), cursor.aggregate_id.as_str()));
    let heads = sqlx::query(HEADS)
        .bind(aggregate_type)
        .bind(aggregate_id)
        .bind(if after.is_some() { i64::MAX } else { i64::MIN })
        .bind(limit)
        .fetch_all(&mut *connection)
        .await?;
    let mut waiting: Vec<i64> = Vec::new();
    for head in &heads {
        if head.try_get("waits")? {
            waiting.push(head.try_get("number")?);
        }
    }
    let mut released = 0;
    if !waiting.is_empty() {
        let done = sqlx::query(RELEASE_WAITING).bind(array(&waiting)?).execute(connection).await?;
        released = done.rows_affected();
    }
    let full = i64::try_from(heads.len()).is_ok_and(|seen| seen >= limit);
    let next = match heads.last().filter(|_| full) {
        Some(last) => Some(LineCursor {
            aggregate_type: text(last, "aggregate_type")?,
            aggregate_id: text(last, "aggregate_id")?,
        }),
        None => None,
    };
    Ok((released, next))
}

//! Figures: each a bounded scan of a partial index.

use sqlx::{Row, SqliteConnection};

use super::summary::status;
use crate::admin::RawCounts;
use crate::outbox::sqlite::maintain::oldest;
use crate::store::sqlite::sql::{age, now, text};

pub(crate) const BY_TYPE: &str = "
SELECT 'Pending' AS status, event_type, count(*) AS events FROM (
    SELECT event_type FROM outbox_messages INDEXED BY outbox_messages_due
    WHERE status = 'Pending' ORDER BY next_attempt_at, event_id LIMIT ?1
) GROUP BY event_type
UNION ALL
SELECT 'Processing', event_type, count(*) FROM (
    SELECT event_type FROM outbox_messages INDEXED BY outbox_messages_leased WHERE status = 'Processing' ORDER BY locked_until LIMIT ?1
) GROUP BY event_type
UNION ALL
SELECT 'Failed', event_type, count(*) FROM (
    SELECT event_type, status FROM outbox_messages INDEXED BY outbox_messages_held
    WHERE status <> 'Published' AND last_error IS NOT NULL ORDER BY enqueued_at LIMIT ?1
) WHERE status = 'Failed' GROUP BY event_type
UNION ALL
SELECT 'Published', event_type, count(*) FROM (
    SELECT event_type FROM outbox_messages INDEXED BY outbox_messages_published
    WHERE status = 'Published' ORDER BY published_at DESC, event_id DESC LIMIT ?1
) GROUP BY event_type";

/// Bounded scans of partial indexes, and the age of the oldest as the relay's own figures tell it.
pub(crate) const FIGURES: &str = concat!(
    "
SELECT ",
    now!(),
    " AS now,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_due
                         WHERE status = 'Pending' AND next_attempt_at <= ",
    now!(),
    " LIMIT ?1)) AS due,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_due
                         WHERE status = 'Pending' AND next_attempt_at = 9223372036854775807 LIMIT ?1)) AS blocked,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_due
                         WHERE status = 'Pending' AND next_attempt_at > ",
    now!(),
    " AND next_attempt_at < 9223372036854775807 LIMIT ?1)) AS later,
  (SELECT count(*) FILTER (WHERE last_error IS NULL) FROM (
      SELECT last_error FROM outbox_messages INDEXED BY outbox_messages_due
      WHERE status = 'Pending' AND next_attempt_at > ",
    now!(),
    " AND next_attempt_at < 9223372036854775807 ORDER BY next_attempt_at, event_id LIMIT ?1)) AS delayed,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_held
                         WHERE status <> 'Published' AND last_error IS NOT NULL LIMIT ?1)) AS with_error,
  (SELECT count(*) FILTER (WHERE status <> 'Failed') FROM (
      SELECT status FROM outbox_messages INDEXED BY outbox_messages_held
      WHERE status <> 'Published' AND last_error IS NOT NULL ORDER BY enqueued_at LIMIT ?1)) AS held,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_leased
                         WHERE status = 'Processing' AND locked_until < ",
    now!(),
    " LIMIT ?1)) AS expired,
  ",
    oldest!()
);

pub(crate) async fn now(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(concat!("SELECT ", now!())).fetch_one(connection).await
}

pub(crate) async fn counts(connection: &mut SqliteConnection, bound: i64) -> Result<RawCounts, sqlx::Error> {
    let rows = sqlx::query(BY_TYPE).bind(bound).fetch_all(&mut *connection).await?;
    let by_type = rows
        .iter()
        .map(|row| Ok((status(row, "status")?, text(row, "event_type")?, events(row.try_get("events")?))))
        .collect::<Result<_, sqlx::Error>>()?;
    let row = sqlx::query(FIGURES).bind(bound).fetch_one(connection).await?;
    let figure = |name: &str| row.try_get::<i64, _>(name).map(events);
    let since = |name: &str| row.try_get::<Option<i64>, _>(name);
    let heads = [since("waiting_since")?, since("blocked_since")?, since("claimed_since")?, since("held_since")?];
    let now = row.try_get("now")?;
    Ok(RawCounts {
        by_type,
        due: figure("due")?,
        later: figure("later")?,
        delayed: figure("delayed")?,
        blocked: figure("blocked")?,
        with_error: figure("with_error")?,
        held: figure("held")?,
        expired: figure("expired")?,
        oldest: heads.into_iter().flatten().min().map(|since| age(now, since)),
        published_estimate: None,
    })
}

fn events(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

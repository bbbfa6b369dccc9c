//! What runs at intervals: retention, figures.

use std::time::Duration;

use sqlx::{Row, SqliteConnection};

use crate::outbox::{OutboxStats, STATS_BOUND};
use crate::store::sqlite::sql::{age, micros, now};

/// Asked before anything is written: what finds nothing takes no lock.
pub(crate) const OLD: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM outbox_messages WHERE status = 'Published' AND published_at < ",
    now!(),
    " - ?1)"
);

pub(crate) const PURGE_PUBLISHED: &str = concat!(
    "
DELETE FROM outbox_messages
WHERE rowid IN (SELECT rowid FROM outbox_messages WHERE status = 'Published' AND published_at < ",
    now!(),
    " - ?1 ORDER BY published_at, event_id LIMIT ?2)"
);

/// Since when the oldest unpublished event is, in four columns (`waiting_since`, `blocked_since`, `claimed_since`, `held_since`): the least of them. A
/// delay counts from its end: an event that was written for next week is not late before. Ordered events have no delay; theirs is put off while
/// they stand behind another one.
macro_rules! oldest {
    () => {
        concat!(
            "(SELECT CASE WHEN sequence IS NULL AND last_error IS NULL THEN max(enqueued_at, next_attempt_at) ELSE enqueued_at END
   FROM outbox_messages INDEXED BY outbox_messages_due
   WHERE status = 'Pending' AND next_attempt_at <= ",
    now!(),
    " ORDER BY next_attempt_at, event_id LIMIT 1) AS waiting_since,
  (SELECT enqueued_at FROM outbox_messages INDEXED BY outbox_messages_due
   WHERE status = 'Pending' AND next_attempt_at = 9223372036854775807 ORDER BY next_attempt_at, event_id LIMIT 1) AS blocked_since,
  (SELECT min(since) FROM (
      SELECT CASE WHEN sequence IS NULL AND last_error IS NULL THEN max(enqueued_at, next_attempt_at) ELSE enqueued_at END AS since
      FROM outbox_messages INDEXED BY outbox_messages_leased WHERE status = 'Processing' ORDER BY locked_until LIMIT 10000)) AS claimed_since,
  (SELECT enqueued_at FROM outbox_messages INDEXED BY outbox_messages_held
   WHERE status <> 'Published' AND last_error IS NOT NULL ORDER BY enqueued_at LIMIT 1) AS held_since"
        )
    };
}
pub(crate) use oldest;

/// Each count is a bounded scan of a partial index; the oldest event is the least of four index heads.
pub(crate) const STATS: &str = concat!(
    "
SELECT ",
    now!(),
    " AS now,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_due WHERE status = 'Pending' LIMIT ?1)) AS pending,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_leased WHERE status = 'Processing' LIMIT ?1)) AS processing,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_due
                         WHERE status = 'Pending' AND next_attempt_at = 9223372036854775807 LIMIT ?1 / 10)) AS blocked,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_due
                         WHERE status = 'Pending' AND next_attempt_at > ",
    now!(),
    " AND next_attempt_at < 9223372036854775807 LIMIT ?1 / 10)) AS later,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_held
                         WHERE status <> 'Published' AND last_error IS NOT NULL AND status <> 'Failed' LIMIT ?1)) AS held,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_held
                         WHERE status <> 'Published' AND last_error IS NOT NULL AND status = 'Failed' LIMIT ?1)) AS failed,
  (SELECT count(*) FROM (SELECT 1 FROM outbox_messages INDEXED BY outbox_messages_leased
                         WHERE status = 'Processing' AND locked_until < ",
    now!(),
    " LIMIT ?1)) AS expired,
  ",
    oldest!()
);

pub(crate) async fn purge_published(
    connection: &mut SqliteConnection,
    keep: Duration,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    if !sqlx::query_scalar(OLD).bind(micros(keep)).fetch_one(&mut *connection).await? {
        return Ok(0);
    }
    Ok(sqlx::query(PURGE_PUBLISHED).bind(micros(keep)).bind(limit).execute(connection).await?.rows_affected())
}

pub(crate) async fn outbox_stats(connection: &mut SqliteConnection) -> Result<OutboxStats, sqlx::Error> {
    let row = sqlx::query(STATS).bind(STATS_BOUND).fetch_one(connection).await?;
    let count = |name: &str| row.try_get::<i64, _>(name).map(|n| u64::try_from(n).unwrap_or(0));
    let since = |name: &str| row.try_get::<Option<i64>, _>(name);
    let heads = [since("waiting_since")?, since("blocked_since")?, since("claimed_since")?, since("held_since")?];
    let now = row.try_get("now")?;
    Ok(OutboxStats {
        pending: count("pending")?,
        processing: count("processing")?,
        held: count("held")?,
        blocked: count("blocked")?,
        later: count("later")?,
        failed: count("failed")?,
        expired: count("expired")?,
        oldest: heads.into_iter().flatten().min().map(|since| age(now, since)),
    })
}

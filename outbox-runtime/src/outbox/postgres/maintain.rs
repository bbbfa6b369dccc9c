//! What runs at intervals: retention, figures.

use std::time::Duration;

use sqlx::{PgConnection, Row};

use crate::outbox::postgres::claim::millis;
use crate::outbox::postgres::through_indexes;
use crate::outbox::{OutboxStats, STATS_BOUND};

/// Oldest first, in bounded steps, waiting for nobody.
pub const PURGE_PUBLISHED: &str = "
WITH old AS MATERIALIZED (
    SELECT event_id FROM outbox_messages
    WHERE status = 'Published' AND published_at < now() - $1 * interval '1 millisecond'
    ORDER BY published_at, event_id LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM outbox_messages WHERE event_id = ANY (ARRAY(SELECT event_id FROM old))";

/// Since when the oldest unpublished event is: the least of three index heads and of a bounded scan. A delay counts from its end: an event that was written for next week
/// is not late before. Ordered events have no delay; theirs is put off while they stand behind another one.
macro_rules! oldest {
    () => {
        "LEAST(
      (SELECT CASE WHEN sequence IS NULL AND last_error IS NULL THEN GREATEST(enqueued_at, next_attempt_at) ELSE enqueued_at END
       FROM outbox_messages WHERE status = 'Pending' AND next_attempt_at <= now() ORDER BY next_attempt_at, event_id LIMIT 1),
      (SELECT enqueued_at FROM outbox_messages WHERE status = 'Pending' AND next_attempt_at = 'infinity' ORDER BY next_attempt_at, event_id LIMIT 1),
      (SELECT min(since) FROM (
          SELECT CASE WHEN sequence IS NULL AND last_error IS NULL THEN GREATEST(enqueued_at, next_attempt_at) ELSE enqueued_at END AS since
          FROM outbox_messages WHERE status = 'Processing' ORDER BY locked_until LIMIT 10000) AS p),
      (SELECT enqueued_at FROM outbox_messages WHERE status <> 'Published' AND last_error IS NOT NULL ORDER BY enqueued_at LIMIT 1)
  )"
    };
}
pub(crate) use oldest;

/// Each count is a bounded scan of a partial index (infinite times, which only a row written by hand has, are cut: their difference is an error).
pub const STATS: &str = concat!(
    "
SELECT
  (SELECT count(*) FROM (SELECT FROM outbox_messages WHERE status = 'Pending' LIMIT $1) AS n) AS pending,
  (SELECT count(*) FROM (SELECT FROM outbox_messages WHERE status = 'Processing' LIMIT $1) AS n) AS processing,
  (SELECT count(*) FROM (SELECT FROM outbox_messages WHERE status = 'Pending' AND next_attempt_at = 'infinity' LIMIT $1 / 10) AS n) AS blocked,
  (SELECT count(*) FROM (
      SELECT FROM outbox_messages WHERE status = 'Pending' AND next_attempt_at > now() AND next_attempt_at < 'infinity' LIMIT $1 / 10
  ) AS n) AS later,
  (SELECT count(*) FROM (SELECT FROM outbox_messages WHERE status <> 'Published' AND last_error IS NOT NULL AND status <> 'Failed' LIMIT $1) AS n) AS held,
  (SELECT count(*) FROM (SELECT FROM outbox_messages WHERE status <> 'Published' AND last_error IS NOT NULL AND status = 'Failed' LIMIT $1) AS n) AS failed,
  (SELECT count(*) FROM (SELECT FROM outbox_messages WHERE status = 'Processing' AND locked_until < now() LIMIT $1) AS n) AS expired,
  (SELECT extract(epoch FROM clock_timestamp() - GREATEST(LEAST(since, clock_timestamp()), '0001-01-01'))::float8 FROM (SELECT ",
    oldest!(),
    " AS since) AS oldest_row WHERE since IS NOT NULL) AS oldest"
);

pub(crate) async fn purge_published(
    connection: &mut PgConnection,
    keep: Duration,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let mut tx = through_indexes::change(connection).await?;
    let done = sqlx::query(PURGE_PUBLISHED).bind(millis(keep)).bind(limit).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(done.rows_affected())
}

pub(crate) async fn outbox_stats(connection: &mut PgConnection) -> Result<OutboxStats, sqlx::Error> {
    let mut tx = through_indexes::look(connection).await?;
    let row = sqlx::query(STATS).bind(STATS_BOUND).fetch_one(&mut *tx).await?;
    tx.commit().await?;
    let count = |name: &str| row.try_get::<i64, _>(name).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(OutboxStats {
        pending: count("pending")?,
        processing: count("processing")?,
        held: count("held")?,
        blocked: count("blocked")?,
        later: count("later")?,
        failed: count("failed")?,
        expired: count("expired")?,
        oldest: row.try_get::<Option<f64>, _>("oldest")?.and_then(|s| Duration::try_from_secs_f64(s.max(0.0)).ok()),
    })
}

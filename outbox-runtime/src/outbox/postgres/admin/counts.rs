//! Figures: each a bounded scan of a partial index.

use std::time::Duration;

use sqlx::{PgConnection, Row};

use super::summary::{micros, status};
use crate::admin::RawCounts;
use crate::outbox::postgres::maintain::oldest;
use crate::outbox::postgres::through_indexes;

const BY_TYPE: &str = "
SELECT 'Pending' AS status, event_type, count(*) AS events FROM (
    SELECT event_type FROM outbox_messages WHERE status = 'Pending' ORDER BY next_attempt_at, event_id LIMIT $1
) AS p GROUP BY event_type
UNION ALL
SELECT 'Processing', event_type, count(*) FROM (
    SELECT event_type FROM outbox_messages WHERE status = 'Processing' ORDER BY locked_until LIMIT $1
) AS p GROUP BY event_type
UNION ALL
SELECT 'Failed', event_type, count(*) FROM (
    SELECT event_type, status FROM outbox_messages WHERE status <> 'Published' AND last_error IS NOT NULL ORDER BY enqueued_at LIMIT $1
) AS p WHERE status = 'Failed' GROUP BY event_type
UNION ALL
SELECT 'Published', event_type, count(*) FROM (
    SELECT event_type FROM outbox_messages WHERE status = 'Published' ORDER BY published_at DESC, event_id DESC LIMIT $1
) AS p GROUP BY event_type";

/// Bounded scans of partial indexes, and the age of the oldest as the relay's own figures tell it.
const FIGURES: &str = concat!(
    "
SELECT
  (SELECT count(*) FROM (
      SELECT FROM outbox_messages WHERE status = 'Pending' AND next_attempt_at <= now() ORDER BY next_attempt_at, event_id LIMIT $1
  ) AS p) AS due,
  (SELECT count(*) FROM (
      SELECT FROM outbox_messages WHERE status = 'Pending' AND next_attempt_at = 'infinity' ORDER BY next_attempt_at, event_id LIMIT $1
  ) AS p) AS blocked,
  later.events AS later, later.delayed, with_error.events AS with_error, with_error.held,
  (SELECT count(*) FROM (
      SELECT FROM outbox_messages WHERE status = 'Processing' AND locked_until < now() ORDER BY locked_until LIMIT $1
  ) AS p) AS expired,
  (SELECT reltuples::float8 FROM pg_class WHERE oid = to_regclass('outbox_messages_published')) AS published,
  ",
    micros!("clock_timestamp()"),
    " AS now,
  ",
    micros!("oldest.since"),
    " AS since
FROM (
    SELECT count(*) AS events, count(*) FILTER (WHERE last_error IS NULL) AS delayed FROM (
        SELECT last_error FROM outbox_messages WHERE status = 'Pending' AND next_attempt_at > now() AND next_attempt_at < 'infinity'
        ORDER BY next_attempt_at, event_id LIMIT $1
    ) AS p
) AS later, (
    SELECT count(*) AS events, count(*) FILTER (WHERE status <> 'Failed') AS held FROM (
        SELECT status FROM outbox_messages WHERE status <> 'Published' AND last_error IS NOT NULL ORDER BY enqueued_at LIMIT $1
    ) AS p
) AS with_error, (
    SELECT ",
    oldest!(),
    " AS since
) AS oldest"
);

const NOW: &str = concat!("SELECT ", micros!("clock_timestamp()"));

pub(crate) async fn now(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(NOW).fetch_one(connection).await
}

pub(crate) async fn counts(connection: &mut PgConnection, bound: i64) -> Result<RawCounts, sqlx::Error> {
    let mut tx = through_indexes::look(connection).await?;
    let rows = sqlx::query(BY_TYPE).bind(bound).fetch_all(&mut *tx).await?;
    let by_type = rows
        .iter()
        .map(|row| Ok((status(row, "status")?, row.try_get("event_type")?, events(row.try_get("events")?))))
        .collect::<Result<_, sqlx::Error>>()?;
    let row = sqlx::query(FIGURES).bind(bound).fetch_one(&mut *tx).await?;
    tx.commit().await?;
    let figure = |name: &str| row.try_get::<i64, _>(name).map(events);
    let (now, since) = (row.try_get::<i64, _>("now")?, row.try_get::<Option<i64>, _>("since")?);
    let published: Option<f64> = row.try_get("published")?;
    Ok(RawCounts {
        by_type,
        due: figure("due")?,
        later: figure("later")?,
        delayed: figure("delayed")?,
        blocked: figure("blocked")?,
        with_error: figure("with_error")?,
        held: figure("held")?,
        expired: figure("expired")?,
        oldest: since.map(|since| Duration::from_micros(events(now.saturating_sub(since)))),
        // -1: nobody has counted yet.
        published_estimate: published.filter(|rows| *rows >= 0.0).map(|rows| rows as u64),
    })
}

fn events(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

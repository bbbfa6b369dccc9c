//! Rows that nobody works on any more: expired leases, claims of a relay that stops, lines whose head waits for nothing (S4, R6, R7).

use sqlx::{PgConnection, Row};

use crate::outbox::LineCursor;

/// Whoever held them may have published them. `next_attempt_at` is stamped anew for each (see `line`).
pub const PUT_BACK_EXPIRED: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
expired AS MATERIALIZED (
    SELECT event_id FROM outbox_messages WHERE status = 'Processing' AND locked_until < now()
    ORDER BY locked_until LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE outbox_messages AS o
SET status = 'Pending', locked_by = NULL, locked_until = NULL, next_attempt_at = clock_timestamp(),
    unknown_count = LEAST(o.unknown_count::bigint + 1, 2147483647)::integer
FROM unflushed WHERE o.event_id = ANY (ARRAY(SELECT event_id FROM expired))";

/// At a shutdown whose time is up: what is still claimed may have been sent.
pub const RELEASE: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
mine AS MATERIALIZED (
    SELECT event_id FROM outbox_messages
    WHERE status = 'Processing' AND locked_by = ANY ($1) ORDER BY event_id FOR UPDATE SKIP LOCKED
)
UPDATE outbox_messages AS o
SET status = 'Pending', locked_by = NULL, locked_until = NULL, next_attempt_at = clock_timestamp(),
    unknown_count = LEAST(o.unknown_count::bigint + 1, 2147483647)::integer
FROM unflushed WHERE o.event_id = ANY (ARRAY(SELECT event_id FROM mine))";

/// Steps from key to key along the index of the lines, and looks at the first row of each: one that waits, waits for nothing. Somebody deleted
/// the row before it, or published it in the moment in which this one was written.
pub const RELEASE_WAITING: &str = "
WITH RECURSIVE unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
heads AS (
    (SELECT aggregate_type, aggregate_id, event_id, status, next_attempt_at FROM outbox_messages
     WHERE sequence IS NOT NULL AND status <> 'Published' AND NOT skipped AND (aggregate_type, aggregate_id, sequence) > ($1, $2, $3)
     ORDER BY aggregate_type, aggregate_id, sequence LIMIT 1)
    UNION ALL
    SELECT next.* FROM heads CROSS JOIN LATERAL (
        SELECT m.aggregate_type, m.aggregate_id, m.event_id, m.status, m.next_attempt_at FROM outbox_messages AS m
        WHERE m.sequence IS NOT NULL AND m.status <> 'Published' AND NOT m.skipped
          AND (m.aggregate_type, m.aggregate_id, m.sequence) > (heads.aggregate_type, heads.aggregate_id, 9223372036854775807)
        ORDER BY m.aggregate_type, m.aggregate_id, m.sequence LIMIT 1
    ) AS next
),
visited AS MATERIALIZED (SELECT row_number() OVER () AS step, * FROM (SELECT * FROM heads LIMIT $4) AS few),
released AS (
    UPDATE outbox_messages AS o SET next_attempt_at = clock_timestamp()
    FROM unflushed
    WHERE o.event_id = ANY (ARRAY(SELECT event_id FROM visited WHERE status = 'Pending' AND next_attempt_at = 'infinity'))
      AND o.status = 'Pending' AND o.next_attempt_at = 'infinity'
    RETURNING o.event_id
)
SELECT (SELECT count(*) FROM released) AS released, (SELECT count(*) FROM visited) AS visited, last.aggregate_type, last.aggregate_id
FROM (VALUES (1)) AS one LEFT JOIN (SELECT * FROM visited ORDER BY step DESC LIMIT 1) AS last ON true";

pub(crate) async fn put_back_expired(connection: &mut PgConnection, limit: i64) -> Result<u64, sqlx::Error> {
    Ok(sqlx::query(PUT_BACK_EXPIRED).bind(limit).execute(connection).await?.rows_affected())
}

pub(crate) async fn release(connection: &mut PgConnection, claim_ids: &[String]) -> Result<u64, sqlx::Error> {
    Ok(sqlx::query(RELEASE).bind(claim_ids).execute(connection).await?.rows_affected())
}

/// Looks at the next `limit` keys; returns how many rows it released, and where to go on (`None`: from the beginning).
pub(crate) async fn release_waiting(
    connection: &mut PgConnection,
    after: Option<&LineCursor>,
    limit: i64,
) -> Result<(u64, Option<LineCursor>), sqlx::Error> {
    let (aggregate_type, aggregate_id) =
        after.map_or(("", ""), |cursor| (cursor.aggregate_type.as_str(), cursor.aggregate_id.as_str()));
    let row = sqlx::query(RELEASE_WAITING)
        .bind(aggregate_type)
        .bind(aggregate_id)
        .bind(if after.is_some() { i64::MAX } else { i64::MIN })
        .bind(limit)
        .fetch_one(connection)
        .await?;
    let released = u64::try_from(row.try_get::<i64, _>("released")?).unwrap_or(0);
    if row.try_get::<i64, _>("visited")? < limit {
        return Ok((released, None));
    }
    let cursor =
        LineCursor { aggregate_type: row.try_get("aggregate_type")?, aggregate_id: row.try_get("aggregate_id")? };
    Ok((released, Some(cursor)))
}

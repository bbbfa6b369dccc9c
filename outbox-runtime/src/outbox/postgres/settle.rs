//! Settle: the outcomes of many batches in one statement, fenced by claim ids (R1, R6, R7).

use sqlx::{PgConnection, Row};

use crate::outbox::postgres::claim::millis;
use crate::outbox::{Fate, Settled, Settlement};

/// Rows are locked in the order of their ids: two relays never wait for each other in a circle. A row that leaves its line pulls the next one
/// forward; that one may be locked by a claim which is about to defer it, so this waits for the claim. Every row that becomes Pending gets a
/// new `next_attempt_at` (see `line`).
pub const SETTLE: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
outcome AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::integer[], $6::integer[], $7::boolean[], $8::text[])
      AS t (event_id, claim_id, status, delay, spent, unknown, skipped, error)
),
mine AS MATERIALIZED (
    SELECT o.event_id, o.aggregate_type, o.aggregate_id, o.sequence, t.status, t.delay, t.spent, t.unknown, t.skipped, t.error
    FROM outbox_messages AS o JOIN outcome AS t USING (event_id)
    WHERE o.event_id = ANY ($1) AND o.status = 'Processing' AND o.locked_by = t.claim_id ORDER BY o.event_id FOR UPDATE OF o
),
follower AS MATERIALIZED (
    SELECT DISTINCT f.event_id FROM mine CROSS JOIN LATERAL (
        SELECT m.event_id, m.status FROM outbox_messages AS m
        WHERE m.aggregate_type = mine.aggregate_type AND m.aggregate_id = mine.aggregate_id AND m.sequence > mine.sequence
          AND m.sequence IS NOT NULL AND m.status <> 'Published' AND NOT m.skipped
        ORDER BY m.sequence LIMIT 1
    ) AS f
    WHERE mine.sequence IS NOT NULL AND (mine.status = 'Published' OR mine.skipped) AND f.status = 'Pending'
      AND NOT EXISTS (SELECT FROM mine AS other WHERE other.event_id = f.event_id)
),
pulled AS (
    UPDATE outbox_messages AS o SET next_attempt_at = clock_timestamp()
    WHERE o.event_id = ANY (ARRAY(SELECT event_id FROM follower)) AND o.status = 'Pending'
      AND (o.next_attempt_at = 'infinity' OR o.next_attempt_at <= clock_timestamp() OR o.attempt_count = 0)
    RETURNING o.event_id
),
gone AS (
    DELETE FROM outbox_messages AS o
    WHERE $9 AND o.event_id = ANY (ARRAY(SELECT event_id FROM mine WHERE status = 'Published'))
    RETURNING o.event_id
),
settled AS (
    UPDATE outbox_messages AS o
    SET status = mine.status,
        published_at = CASE mine.status WHEN 'Published' THEN clock_timestamp() END,
        next_attempt_at = CASE WHEN mine.status <> 'Pending' THEN o.next_attempt_at
                               WHEN mine.delay < 0 THEN 'infinity'
                               ELSE clock_timestamp() + mine.delay * interval '1 millisecond' END,
        attempt_count = LEAST(o.attempt_count::bigint + mine.spent, 2147483647)::integer,
        unknown_count = LEAST(o.unknown_count::bigint + mine.unknown, 2147483647)::integer,
        skipped = o.skipped OR mine.skipped,
        last_error = CASE WHEN mine.status = 'Published' THEN NULL ELSE COALESCE(mine.error, o.last_error) END,
        locked_by = NULL,
        locked_until = NULL
    FROM mine, unflushed
    WHERE o.event_id = ANY ($1) AND o.event_id = mine.event_id AND NOT ($9 AND mine.status = 'Published')
    RETURNING o.event_id
)
SELECT (SELECT count(*) FROM settled) + (SELECT count(*) FROM gone) AS settled, (SELECT count(*) FROM pulled) AS pulled
FROM unflushed";

/// `next_attempt_at` of an event that waits for the one before it.
const WAITS: i64 = -1;

pub(crate) async fn settle(
    connection: &mut PgConnection,
    settlements: &[Settlement],
    delete_published: bool,
) -> Result<Settled, sqlx::Error> {
    fn column<'a, T>(settlements: &'a [Settlement], value: impl Fn(&'a Settlement) -> T) -> Vec<T> {
        settlements.iter().map(value).collect()
    }
    let row = sqlx::query(SETTLE)
        .bind(column(settlements, |s| s.event_id.as_str()))
        .bind(column(settlements, |s| s.claim_id.as_str()))
        .bind(column(settlements, |s| match s.fate {
            Fate::Published => "Published",
            Fate::Failed { .. } => "Failed",
            Fate::Retry { .. } | Fate::Blocked | Fate::PutBack => "Pending",
        }))
        .bind(column(settlements, |s| match s.fate {
            Fate::Retry { after, .. } => millis(after).max(1),
            Fate::Blocked => WAITS,
            _ => 0,
        }))
        .bind(column(settlements, |s| match s.fate {
            Fate::Retry { spent, .. } => i32::from(spent),
            Fate::Failed { .. } => 1,
            _ => 0,
        }))
        .bind(column(settlements, |s| i32::from(matches!(s.fate, Fate::Retry { unknown: true, .. }))))
        .bind(column(settlements, |s| {
            matches!(s.fate, Fate::Retry { skipped: true, .. } | Fate::Failed { skipped: true, .. })
        }))
        .bind(column(settlements, |s| match &s.fate {
            Fate::Retry { error, .. } | Fate::Failed { error, .. } => Some(error.as_str()),
            _ => None,
        }))
        .bind(delete_published)
        .fetch_one(connection)
        .await?;
    let count = |name: &str| row.try_get::<i64, _>(name).map(|count| u64::try_from(count).unwrap_or(0));
    Ok(Settled { settled: count("settled")?, pulled: count("pulled")? })
}

//! An action on single rows, in one statement under their locks; and the heads of keys that may go on after it.

use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::summary::{micros, status};
use crate::admin::{Action, Found};
use crate::outbox::postgres::insert::wake;

/// Sleeping relays are woken as by an enqueue (R5): what is due now need not wait for their next look.
///
/// `mine` are rows that nobody else has, locked in the order of their ids, as settle locks them. Whatever is locked at the moment, by a claim or
/// a settle that is under way, is left alone: nobody waits for an operator, and the other way round.
fn sql(action: &Action) -> String {
    let free = "locked_by = NULL, locked_until = NULL, unknown_count = CASE o.status WHEN 'Processing' THEN LEAST(o.unknown_count::bigint + 1, 2147483647)::integer ELSE o.unknown_count END";
    let change = match action {
        // Not its unknown results: what a broker may have cannot be cancelled.
        Action::RetryNow => format!("UPDATE outbox_messages AS o SET status = 'Pending', attempt_count = 0, {free},
            next_attempt_at = clock_timestamp()
            FROM mine WHERE o.event_id = mine.event_id"),
        Action::Fail { .. } => format!("UPDATE outbox_messages AS o SET status = 'Failed', last_error = $3, skipped = o.skipped OR o.on_failed = 'skip', {free}
            FROM mine WHERE o.event_id = mine.event_id"),
        Action::Discard => "DELETE FROM outbox_messages AS o USING mine WHERE o.event_id = mine.event_id".to_owned(),
        // One that waits has left its line with this: nobody pulls it forward any more, it looks for itself.
        Action::Skip => format!("UPDATE outbox_messages AS o SET skipped = true, status = CASE o.status WHEN 'Processing' THEN 'Pending' ELSE o.status END, {free},
            next_attempt_at = CASE o.next_attempt_at WHEN 'infinity' THEN clock_timestamp() ELSE o.next_attempt_at END
            FROM mine WHERE o.event_id = mine.event_id"),
        Action::Replay => "UPDATE outbox_messages AS o SET status = 'Pending', published_at = NULL, attempt_count = 0, unknown_count = GREATEST(o.unknown_count, 1), last_error = NULL,
            skipped = false, next_attempt_at = clock_timestamp()
            FROM mine WHERE o.event_id = mine.event_id".to_owned(),
    };
    let ordered = if action.needs_order() { "AND o.sequence IS NOT NULL" } else { "" };
    format!(
        "
WITH flushed AS MATERIALIZED (
    SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END AS done
),
seen AS MATERIALIZED (
    SELECT o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.sequence, o.status, o.locked_by, o.locked_until,
           o.status = 'Processing' AND o.locked_until >= now() AS leased
    FROM outbox_messages AS o WHERE o.event_id = ANY($1)
),
mine AS MATERIALIZED (
    SELECT o.event_id, o.status FROM outbox_messages AS o CROSS JOIN flushed
    WHERE o.event_id = ANY($1) AND o.status = ANY($2) AND (o.status <> 'Processing' OR o.locked_until < now()) {ordered}
    ORDER BY o.event_id FOR UPDATE OF o SKIP LOCKED
),
changed AS (
    {change} RETURNING o.event_id
)
SELECT seen.event_id, seen.event_type, seen.aggregate_type, seen.aggregate_id, seen.sequence IS NOT NULL AS ordered,
       COALESCE(mine.status, seen.status) AS status, seen.leased, seen.locked_by, {} AS locked_until, changed.event_id IS NOT NULL AS done,
       {} AS woken
FROM seen LEFT JOIN mine ON mine.event_id = seen.event_id LEFT JOIN changed ON changed.event_id = seen.event_id",
        micros!("seen.locked_until"),
        wake!()
    )
}

/// The first of each key that still waits to be looked at. One that somebody has locked is left to the relay's sweep.
const PULL: &str = "
WITH keys AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[]) AS k (aggregate_type, aggregate_id)
),
head AS MATERIALIZED (
    SELECT h.event_id FROM keys CROSS JOIN LATERAL (
        SELECT o.event_id, o.status, o.next_attempt_at FROM outbox_messages AS o
        WHERE o.aggregate_type = keys.aggregate_type AND o.aggregate_id = keys.aggregate_id
          AND o.sequence IS NOT NULL AND o.status <> 'Published' AND NOT o.skipped
        ORDER BY o.sequence LIMIT 1
    ) AS h WHERE h.status = 'Pending' AND h.next_attempt_at = 'infinity'
),
pulled AS MATERIALIZED (
    SELECT o.event_id FROM outbox_messages AS o JOIN head ON head.event_id = o.event_id
    WHERE o.status = 'Pending' AND o.next_attempt_at = 'infinity' ORDER BY o.event_id FOR UPDATE OF o SKIP LOCKED
)
UPDATE outbox_messages AS o SET next_attempt_at = clock_timestamp() FROM pulled WHERE o.event_id = pulled.event_id";

pub(crate) async fn act(
    connection: &mut PgConnection,
    action: &Action,
    ids: &[String],
) -> Result<Vec<Found>, sqlx::Error> {
    let statuses: Vec<&str> = action.statuses().iter().map(|status| status.as_str()).collect();
    let query = sqlx::query(AssertSqlSafe(sql(action))).bind(ids).bind(statuses);
    let query = match action {
        Action::Fail { error } => query.bind(error),
        _ => query,
    };
    let rows = query.fetch_all(connection).await?;
    let found = rows.iter().map(|row| {
        Ok(Found {
            event_id: row.try_get("event_id")?,
            event_type: row.try_get("event_type")?,
            aggregate_type: row.try_get("aggregate_type")?,
            aggregate_id: row.try_get("aggregate_id")?,
            ordered: row.try_get("ordered")?,
            status: status(row, "status")?,
            leased: row.try_get("leased")?,
            locked_by: row.try_get("locked_by")?,
            locked_until: row.try_get("locked_until")?,
            done: row.try_get("done")?,
        })
    });
    found.collect()
}

pub(crate) async fn pull(connection: &mut PgConnection, keys: &[(String, String)]) -> Result<u64, sqlx::Error> {
    let (kinds, ids): (Vec<&str>, Vec<&str>) = keys.iter().map(|(kind, id)| (kind.as_str(), id.as_str())).unzip();
    Ok(sqlx::query(PULL).bind(kinds).bind(ids).execute(connection).await?.rows_affected())
}

//! Re-running parked messages (C2, C3).

use sqlx::{PgConnection, Row};

use crate::inbox::postgres::dedup::stamp;
use crate::inbox::{ParkedClaim, ParkedRow, Reparked, Stamp};

/// A claim counts as an attempt before anything runs: a message that takes the process with it comes to an end. One whose last run came to
/// no end runs alone from then on, as one that the broker gave up on: it may be the one that kills, or stand beside it.
const CLAIM: &str = "
WITH due AS MATERIALIZED (
    SELECT parked_id FROM parked_messages
    WHERE consumer = $1 AND status = 'Retrying' AND next_attempt_at <= now() AND (locked_until IS NULL OR locked_until < now())
      AND (isolated OR locked_by IS NOT NULL) = $5
    ORDER BY next_attempt_at, parked_id LIMIT $2 FOR UPDATE SKIP LOCKED
)
UPDATE parked_messages AS p
SET attempts = LEAST(p.attempts::bigint + 1, 2147483647)::integer, isolated = $5, locked_by = $3, locked_until = clock_timestamp() + $4 * interval '1 millisecond'
FROM due WHERE p.parked_id = due.parked_id
RETURNING p.parked_id, p.event_id, p.body, p.properties::text AS properties, p.attempts, p.isolated";

const ALONE_DUE: &str = "
SELECT EXISTS (SELECT FROM parked_messages
               WHERE consumer = $1 AND status = 'Retrying' AND (isolated OR locked_by IS NOT NULL)
                 AND next_attempt_at <= now() AND (locked_until IS NULL OR locked_until < now()))";

/// Takes the row (its lock is the lease from here on) and turns the dedup record to Processed; the statement also makes sure of the flush.
const BEGIN: &str = "
WITH flushed AS MATERIALIZED (
    SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END AS done
),
taken AS (
    DELETE FROM parked_messages WHERE parked_id = $1 AND locked_by = $2 AND status = 'Retrying' RETURNING consumer, event_id
)
UPDATE inbox_messages AS i SET state = 'Processed', decided_at = clock_timestamp()
FROM taken, flushed WHERE i.consumer = taken.consumer AND i.event_id = taken.event_id AND i.state = 'Retrying'
RETURNING txid_current() AS transaction, pg_backend_pid() AS session";

const AGAIN: &str = "
UPDATE parked_messages
SET next_attempt_at = clock_timestamp() + $3 * interval '1 millisecond', error = $4, reason = 'handler failed',
    locked_by = NULL, locked_until = NULL
WHERE parked_id = $1 AND locked_by = $2 AND status = 'Retrying'";

/// Its count is that of the parked row: the dedup record may say otherwise, which is one of the reasons to be here.
const DEAD: &str = "
WITH flushed AS MATERIALIZED (
    SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END AS done
),
ended AS (
    UPDATE parked_messages SET status = 'Dead', reason = $3, error = $4, locked_by = NULL, locked_until = NULL
    WHERE parked_id = $1 AND locked_by = $2 AND status = 'Retrying' RETURNING consumer, event_id
),
decided AS (
    UPDATE inbox_messages AS i SET state = 'Dead', decided_at = clock_timestamp()
    FROM ended WHERE i.consumer = ended.consumer AND i.event_id = ended.event_id AND i.state = 'Retrying'
)
SELECT 1 FROM ended, flushed";

const PUT_BACK: &str = "
UPDATE parked_messages SET attempts = GREATEST(attempts - 1, 0), locked_by = NULL, locked_until = NULL,
    next_attempt_at = GREATEST(next_attempt_at, clock_timestamp() + $3 * interval '1 millisecond')
WHERE parked_id = $1 AND locked_by = $2 AND status = 'Retrying'";

pub(crate) async fn claim_parked(
    connection: &mut PgConnection,
    claim: &ParkedClaim,
) -> Result<Vec<ParkedRow>, sqlx::Error> {
    let rows = sqlx::query(CLAIM)
        .bind(&claim.consumer)
        .bind(claim.limit)
        .bind(&claim.claim_id)
        .bind(i64::try_from(claim.lease.as_millis()).unwrap_or(i64::MAX))
        .bind(claim.alone)
        .fetch_all(connection)
        .await?;
    let mut parked = rows
        .iter()
        .map(|row| {
            Ok(ParkedRow {
                parked_id: row.try_get("parked_id")?,
                event_id: row.try_get("event_id")?,
                body: row.try_get("body")?,
                properties: row.try_get("properties")?,
                attempts: row.try_get("attempts")?,
                isolated: row.try_get("isolated")?,
            })
        })
        .collect::<Result<Vec<_>, sqlx::Error>>()?;
    parked.sort_by_key(|row| row.parked_id);
    Ok(parked)
}

pub(crate) async fn alone_due(connection: &mut PgConnection, consumer: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(ALONE_DUE).bind(consumer).fetch_one(connection).await
}

pub(crate) async fn begin_rerun(
    connection: &mut PgConnection,
    parked_id: i64,
    claim_id: &str,
) -> Result<Option<Stamp>, sqlx::Error> {
    let row = sqlx::query(BEGIN).bind(parked_id).bind(claim_id).fetch_optional(connection).await?;
    row.map(|row| stamp(&row)).transpose()
}

pub(crate) async fn repark(
    connection: &mut PgConnection,
    parked_id: i64,
    claim_id: &str,
    reparked: &Reparked,
) -> Result<bool, sqlx::Error> {
    let query = match reparked {
        Reparked::Again { after, error } => sqlx::query(AGAIN)
            .bind(parked_id)
            .bind(claim_id)
            .bind(i64::try_from(after.as_millis()).unwrap_or(i64::MAX))
            .bind(error),
        Reparked::Dead { reason, error } => {
            sqlx::query(DEAD).bind(parked_id).bind(claim_id).bind(reason.as_str()).bind(error)
        }
        Reparked::PutBack { after } => sqlx::query(PUT_BACK)
            .bind(parked_id)
            .bind(claim_id)
            .bind(i64::try_from(after.as_millis()).unwrap_or(i64::MAX)),
    };
    Ok(query.execute(connection).await?.rows_affected() == 1)
}

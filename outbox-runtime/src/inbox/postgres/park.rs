//! Parking: the inbox row and the body in one durable statement (C2).

use sqlx::{PgConnection, Row};

use crate::inbox::{NewParked, ParkedStatus};
use crate::outbox::STATS_BOUND;

/// With a dedup record: nothing happens if the event has one. A dead letter that is to run, and is older than the window, has none either: it
/// is not parked to run (S7).
const PARK_KNOWN: &str = "
WITH flushed AS MATERIALIZED (
    SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END AS done
),
decided AS (
    INSERT INTO inbox_messages (consumer, event_id, state, enqueued_at, event_version, fingerprint)
    SELECT $1, $2, $6, COALESCE($12, now()), $13, $14 FROM flushed
    WHERE NOT $10 OR $6 = 'Dead' OR $12 IS NULL OR NOT EXISTS (SELECT FROM inbox_floors WHERE consumer = $1 AND floor > $12)
    ON CONFLICT (consumer, event_id) DO NOTHING RETURNING event_id
)
INSERT INTO parked_messages (consumer, event_id, event_type, body, properties, status, reason, error, attempts, isolated,
                             next_attempt_at, enqueued_at)
SELECT $1, $2, $3, $4, $5::json, $6, $7, $8, $9, $10, clock_timestamp() + $11 * interval '1 millisecond', $12 FROM decided";

/// After a run whose handler ended the transaction by itself: the record may be gone, or durable as Processed, of that very transaction.
const PARK_ENDED: &str = "
WITH flushed AS MATERIALIZED (
    SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END AS done
),
decided AS (
    INSERT INTO inbox_messages AS i (consumer, event_id, state, enqueued_at, event_version, fingerprint)
    SELECT $1, $2, $6, COALESCE($12, now()), $13, $14 FROM flushed
    ON CONFLICT (consumer, event_id) DO UPDATE SET state = EXCLUDED.state, decided_at = clock_timestamp()
    WHERE i.xmin::text::bigint = $15 & 4294967295 RETURNING event_id
)
INSERT INTO parked_messages (consumer, event_id, event_type, body, properties, status, reason, error, attempts, isolated,
                             next_attempt_at, enqueued_at)
SELECT $1, $2, $3, $4, $5::json, $6, $7, $8, $9, $10, clock_timestamp() + $11 * interval '1 millisecond', $12 FROM decided";

/// Without one: what has no usable id still has a place to live.
const PARK_UNKNOWN: &str = "
WITH flushed AS MATERIALIZED (
    SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END AS done
)
INSERT INTO parked_messages (consumer, event_id, event_type, body, properties, status, reason, error, attempts, isolated,
                             next_attempt_at, enqueued_at)
SELECT $1, $2, $3, $4, $5::json, $6, $7, $8, $9, $10, clock_timestamp() + $11 * interval '1 millisecond', $12 FROM flushed";

const STATS: &str = "
SELECT (SELECT count(*) FROM (SELECT FROM parked_messages WHERE status = 'Retrying' LIMIT $1) AS n) AS retrying,
       (SELECT count(*) FROM (SELECT FROM parked_messages WHERE status = 'Dead' LIMIT $1) AS n) AS dead";

pub(crate) async fn park(connection: &mut PgConnection, parked: &NewParked) -> Result<bool, sqlx::Error> {
    let (status, delay) = match parked.status {
        ParkedStatus::Retrying { after } => ("Retrying", i64::try_from(after.as_millis()).unwrap_or(i64::MAX)),
        ParkedStatus::Dead => ("Dead", 0),
    };
    let sql = match (&parked.inbox, parked.ended) {
        (Some(_), Some(_)) => PARK_ENDED,
        (Some(_), None) => PARK_KNOWN,
        (None, _) => PARK_UNKNOWN,
    };
    let query = sqlx::query(sql)
        .bind(&parked.consumer)
        .bind(&parked.event_id)
        .bind(&parked.event_type)
        .bind(&parked.body)
        .bind(&parked.properties)
        .bind(status)
        .bind(parked.reason.as_str())
        .bind(&parked.error)
        .bind(parked.attempts)
        .bind(parked.isolated)
        .bind(delay)
        .bind(parked.enqueued_at);
    let query = match &parked.inbox {
        Some(entry) => query.bind(entry.version).bind(entry.fingerprint.as_slice()),
        None => query,
    };
    let query = match (&parked.inbox, parked.ended) {
        (Some(_), Some(stamp)) => query.bind(stamp.transaction),
        _ => query,
    };
    Ok(query.execute(connection).await?.rows_affected() == 1)
}

pub(crate) async fn parked_stats(connection: &mut PgConnection) -> Result<crate::inbox::ParkedStats, sqlx::Error> {
    let row = sqlx::query(STATS).bind(STATS_BOUND).fetch_one(connection).await?;
    let count = |name: &str| row.try_get::<i64, _>(name).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(crate::inbox::ParkedStats { retrying: count("retrying")?, dead: count("dead")? })
}

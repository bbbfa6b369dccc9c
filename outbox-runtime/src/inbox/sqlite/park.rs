//! Parking: the inbox row and the body in one transaction (C2).

use sqlx::{Row, SqliteConnection};

use crate::inbox::{InboxEntry, NewParked, ParkedStats, ParkedStatus};
use crate::outbox::STATS_BOUND;
use crate::store::sqlite::sql::{Together, micros, now};

/// With a dedup record: nothing happens if the event has one. A dead letter that is to run, and is older than the window, has none either: it
/// is not parked to run (S7).
const DECIDE_KNOWN: &str = concat!(
    "
INSERT INTO inbox_messages (consumer, event_id, state, enqueued_at, event_version, fingerprint)
SELECT ?1, ?2, ?3, coalesce(?4, ",
    now!(),
    "), ?5, ?6
WHERE NOT ?7 OR ?3 = 'Dead' OR ?4 IS NULL OR NOT EXISTS (SELECT 1 FROM inbox_floors WHERE consumer = ?1 AND floor > ?4)
ON CONFLICT (consumer, event_id) DO NOTHING"
);

/// After a run whose handler ended the transaction by itself: the record may be gone, or durable as Processed, of that very run.
const DECIDE_ENDED: &str = concat!(
    "
INSERT INTO inbox_messages AS i (consumer, event_id, state, enqueued_at, event_version, fingerprint)
VALUES (?1, ?2, ?3, coalesce(?4, ",
    now!(),
    "), ?5, ?6)
ON CONFLICT (consumer, event_id) DO UPDATE SET state = excluded.state, decided_at = ",
    now!(),
    "
WHERE i.rowid = ?7 AND i.run = ?8"
);

const PARK: &str = concat!(
    "
INSERT INTO parked_messages (consumer, event_id, event_type, body, properties, status, reason, error, attempts, isolated,
                             next_attempt_at, enqueued_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ",
    now!(),
    " + ?11, ?12)"
);

pub(crate) const STATS: &str = "
SELECT (SELECT count(*) FROM (SELECT 1 FROM parked_messages INDEXED BY parked_messages_due WHERE status = 'Retrying' LIMIT ?1)) AS retrying,
       (SELECT count(*) FROM (SELECT 1 FROM parked_messages INDEXED BY parked_messages_dead WHERE status = 'Dead' LIMIT ?1)) AS dead";

pub(crate) async fn park(connection: &mut SqliteConnection, parked: &NewParked) -> Result<bool, sqlx::Error> {
    let (status, delay) = match parked.status {
        ParkedStatus::Retrying { after } => ("Retrying", micros(after)),
        ParkedStatus::Dead => ("Dead", 0),
    };
    let mut together = Together::begin(connection).await?;
    if let Some(entry) = &parked.inbox
        && !decide(&mut together, parked, entry, status).await?
    {
        together.rollback().await?;
        return Ok(false);
    }
    sqlx::query(PARK)
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
        .bind(parked.enqueued_at.map(|time| time.timestamp_micros()))
        .execute(&mut *together)
        .await?;
    together.commit().await?;
    Ok(true)
}

/// Whether the event's record is ours to write.
async fn decide(
    connection: &mut SqliteConnection,
    parked: &NewParked,
    entry: &InboxEntry,
    status: &str,
) -> Result<bool, sqlx::Error> {
    let query = sqlx::query(if parked.ended.is_some() { DECIDE_ENDED } else { DECIDE_KNOWN })
        .bind(&parked.consumer)
        .bind(&entry.event_id)
        .bind(status)
        .bind(parked.enqueued_at.map(|time| time.timestamp_micros()))
        .bind(entry.version)
        .bind(entry.fingerprint.as_slice());
    let query = match parked.ended {
        Some(run) => query.bind(run.transaction).bind(run.session),
        None => query.bind(parked.isolated),
    };
    Ok(query.execute(connection).await?.rows_affected() == 1)
}

pub(crate) async fn parked_stats(connection: &mut SqliteConnection) -> Result<ParkedStats, sqlx::Error> {
    let row = sqlx::query(STATS).bind(STATS_BOUND).fetch_one(connection).await?;
    let count = |name: &str| row.try_get::<i64, _>(name).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(ParkedStats { retrying: count("retrying")?, dead: count("dead")? })
}

//! The dedup record: first in the handler's transaction.

use sqlx::{Row, SqliteConnection};

use crate::inbox::{Disposition, InboxEntry, InboxRecord, Stamp};
use crate::queue::QueueKey;
use crate::store::sqlite::run;
use crate::store::sqlite::sql::{now, text};

/// Inserts unless the event is known or older than the floor.
pub(crate) const INSERT: &str = concat!(
    "
INSERT INTO inbox_messages (consumer, event_id, state, enqueued_at, event_version, fingerprint, run)
SELECT ?1, ?2, 'Processed', coalesce(?3, ",
    now!(),
    "), ?4, ?5, ?6
WHERE ?3 IS NULL OR NOT EXISTS (SELECT 1 FROM inbox_floors WHERE consumer = ?1 AND floor > ?3)
ON CONFLICT (consumer, event_id) DO NOTHING
RETURNING rowid"
);

/// A message of a database queue leaves its queue with the record. A lost claim inserts nothing.
pub(crate) const TAKE: &str = "DELETE FROM queue_messages WHERE message_id = ?1 AND locked_by = ?2";

pub(crate) const RECORD: &str = "
SELECT i.state, i.event_version, i.fingerprint,
       coalesce(?3 < (SELECT floor FROM inbox_floors WHERE consumer = ?1), 0) AS too_old
FROM (SELECT 1) AS one LEFT JOIN inbox_messages AS i ON i.consumer = ?1 AND i.event_id = ?2";

pub(crate) const COMMITTED: &str = "
SELECT EXISTS (SELECT 1 FROM inbox_messages WHERE consumer = ?1 AND event_id = ?2 AND rowid = ?3 AND run = ?4)";

pub(crate) async fn insert_inbox(
    connection: &mut SqliteConnection,
    entry: &InboxEntry,
    from: Option<&QueueKey>,
) -> Result<Option<Stamp>, sqlx::Error> {
    if let Some(key) = from {
        let taken = sqlx::query(TAKE).bind(key.message_id).bind(&key.claim_id).execute(&mut *connection).await?;
        if taken.rows_affected() == 0 {
            return Ok(None);
        }
    }
    let number = run::number();
    let inserted: Option<i64> = sqlx::query_scalar(INSERT)
        .bind(&entry.consumer)
        .bind(&entry.event_id)
        .bind(entry.enqueued_at.map(|time| time.timestamp_micros()))
        .bind(entry.version)
        .bind(entry.fingerprint.as_slice())
        .bind(number)
        .fetch_optional(&mut *connection)
        .await?;
    stamp(connection, inserted, number).await
}

/// The handler is next: from here on nobody but the engine ends the transaction.
pub(super) async fn stamp(
    connection: &mut SqliteConnection,
    written: Option<i64>,
    number: i32,
) -> Result<Option<Stamp>, sqlx::Error> {
    let Some(row) = written else { return Ok(None) };
    run::watch(connection, number).await?;
    Ok(Some(Stamp { transaction: row, session: number }))
}

pub(crate) async fn committed_by_handler(
    connection: &mut SqliteConnection,
    entry: &InboxEntry,
    stamp: Stamp,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(COMMITTED)
        .bind(&entry.consumer)
        .bind(&entry.event_id)
        .bind(stamp.transaction)
        .bind(stamp.session)
        .fetch_one(connection)
        .await
}

pub(crate) async fn inbox_record(
    connection: &mut SqliteConnection,
    entry: &InboxEntry,
) -> Result<InboxRecord, sqlx::Error> {
    let row = sqlx::query(RECORD)
        .bind(&entry.consumer)
        .bind(&entry.event_id)
        .bind(entry.enqueued_at.map(|time| time.timestamp_micros()))
        .fetch_one(connection)
        .await?;
    let state: Option<&[u8]> = row.try_get("state")?;
    let Some(state) = state.and_then(|_| Disposition::from_name(&text(&row, "state").ok()?)) else {
        return Ok(if row.try_get("too_old")? { InboxRecord::TooOld } else { InboxRecord::Gone });
    };
    let version: i32 = row.try_get("event_version")?;
    let fingerprint: Vec<u8> = row.try_get("fingerprint")?;
    // Another version of the same event is the same event, upcast by somebody; other fields in the same version are not.
    if version == entry.version && fingerprint != entry.fingerprint {
        return Ok(InboxRecord::Reused);
    }
    Ok(InboxRecord::Known(state))
}

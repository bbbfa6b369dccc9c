//! The dedup record: first in the handler's transaction.

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::inbox::{Disposition, InboxEntry, InboxRecord, Stamp};
use crate::queue::QueueKey;

/// Inserts unless the event is known or older than the floor. The same statement makes sure that the commit is flushed, whatever the
/// role's `synchronous_commit` is: the ack that follows it must not outlive it.
const INSERT: &str = "
WITH flushed AS MATERIALIZED (
    SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END AS done
)
INSERT INTO inbox_messages (consumer, event_id, state, enqueued_at, event_version, fingerprint)
SELECT $1, $2, 'Processed', COALESCE($3, now()), $4, $5 FROM flushed
WHERE $3 IS NULL OR NOT EXISTS (SELECT FROM inbox_floors WHERE consumer = $1 AND floor > $3)
ON CONFLICT (consumer, event_id) DO NOTHING
RETURNING txid_current() AS transaction, pg_backend_pid() AS session";

/// The same with a message of a database queue: it leaves its queue in the same statement. A lost claim inserts nothing.
const INSERT_AND_TAKE: &str = "
WITH flushed AS MATERIALIZED (
    SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END AS done
),
taken AS (DELETE FROM queue_messages WHERE message_id = $6 AND locked_by = $7 RETURNING message_id)
INSERT INTO inbox_messages (consumer, event_id, state, enqueued_at, event_version, fingerprint)
SELECT $1, $2, 'Processed', COALESCE($3, now()), $4, $5 FROM flushed, taken
WHERE $3 IS NULL OR NOT EXISTS (SELECT FROM inbox_floors WHERE consumer = $1 AND floor > $3)
ON CONFLICT (consumer, event_id) DO NOTHING
RETURNING txid_current() AS transaction, pg_backend_pid() AS session";

const RECORD: &str = "
SELECT i.state, i.event_version, i.fingerprint,
       COALESCE($3 < (SELECT floor FROM inbox_floors WHERE consumer = $1), false) AS too_old
FROM (SELECT 1) AS one LEFT JOIN inbox_messages AS i ON i.consumer = $1 AND i.event_id = $2";

const COMMITTED: &str = "
SELECT EXISTS (SELECT FROM inbox_messages
               WHERE consumer = $1 AND event_id = $2 AND xmin::text::bigint = $3 & 4294967295)";

pub(crate) async fn insert_inbox(
    connection: &mut PgConnection,
    entry: &InboxEntry,
    from: Option<&QueueKey>,
) -> Result<Option<Stamp>, sqlx::Error> {
    let query = sqlx::query(if from.is_some() { INSERT_AND_TAKE } else { INSERT })
        .bind(&entry.consumer)
        .bind(&entry.event_id)
        .bind(entry.enqueued_at)
        .bind(entry.version)
        .bind(entry.fingerprint.as_slice());
    let query = match from {
        Some(key) => query.bind(key.message_id).bind(&key.claim_id),
        None => query,
    };
    let row = query.fetch_optional(connection).await?;
    row.map(|row| stamp(&row)).transpose()
}

pub(super) fn stamp(row: &PgRow) -> Result<Stamp, sqlx::Error> {
    Ok(Stamp { transaction: row.try_get("transaction")?, session: row.try_get("session")? })
}

pub(crate) async fn committed_by_handler(
    connection: &mut PgConnection,
    entry: &InboxEntry,
    stamp: Stamp,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(COMMITTED)
        .bind(&entry.consumer)
        .bind(&entry.event_id)
        .bind(stamp.transaction)
        .fetch_one(connection)
        .await
}

pub(crate) async fn inbox_record(
    connection: &mut PgConnection,
    entry: &InboxEntry,
) -> Result<InboxRecord, sqlx::Error> {
    let row = sqlx::query(RECORD)
        .bind(&entry.consumer)
        .bind(&entry.event_id)
        .bind(entry.enqueued_at)
        .fetch_one(connection)
        .await?;
    let Some(state) = row.try_get::<Option<String>, _>("state")?.as_deref().and_then(Disposition::from_name) else {
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

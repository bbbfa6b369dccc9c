//! The floor of a consumer's dedup window (S7).
//!
//! A floor is announced first, and rows below it are deleted only after a grace, as on PostgreSQL: both tell the same to an operator.

use std::time::Duration;

use sqlx::SqliteConnection;

use crate::inbox::FloorMove;
use crate::store::sqlite::sql::{micros, now};

/// Asked before anything is written: what finds nothing takes no lock.
pub(crate) const BELOW: &str = concat!(
    "
SELECT EXISTS (SELECT 1 FROM inbox_floors AS f CROSS JOIN inbox_messages AS i ON i.consumer = f.consumer
               WHERE f.consumer = ?1 AND i.enqueued_at < f.floor AND i.state = 'Processed' AND f.announced_at < ",
    now!(),
    " - ?2)"
);

pub(crate) const PURGE: &str = concat!(
    "
DELETE FROM inbox_messages WHERE rowid IN (
    SELECT i.rowid FROM inbox_floors AS f CROSS JOIN inbox_messages AS i ON i.consumer = f.consumer
    WHERE f.consumer = ?1 AND i.enqueued_at < f.floor AND i.state = 'Processed' AND f.announced_at < ",
    now!(),
    " - ?2
    ORDER BY i.enqueued_at LIMIT ?3)"
);

/// A new floor is announced only after the old one was cleared away below.
const ANNOUNCE: &str = concat!(
    "INSERT INTO inbox_floors AS f (consumer, floor, announced_at) VALUES (?1, ",
    now!(),
    " - ?2, ",
    now!(),
    ")
ON CONFLICT (consumer) DO UPDATE SET floor = excluded.floor, announced_at = excluded.announced_at
WHERE f.floor < excluded.floor AND f.held_until < ",
    now!(),
    " AND f.announced_at < ",
    now!(),
    " - ?3"
);

const HOLD: &str = concat!(
    "INSERT INTO inbox_floors AS f (consumer, held_until) VALUES (?1, ",
    now!(),
    " + ?2)
ON CONFLICT (consumer) DO UPDATE SET held_until = max(f.held_until, excluded.held_until)"
);

pub(crate) async fn move_floor(
    connection: &mut SqliteConnection,
    consumer: &str,
    floor: &FloorMove,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let grace = micros(floor.grace);
    let mut purged = 0;
    if sqlx::query_scalar(BELOW).bind(consumer).bind(grace).fetch_one(&mut *connection).await? {
        let done = sqlx::query(PURGE).bind(consumer).bind(grace).bind(limit).execute(&mut *connection).await?;
        purged = done.rows_affected();
    }
    if purged == 0 && floor.advance {
        sqlx::query(ANNOUNCE).bind(consumer).bind(micros(floor.keep)).bind(grace).execute(connection).await?;
    }
    Ok(purged)
}

pub(crate) async fn hold_floor(
    connection: &mut SqliteConnection,
    consumer: &str,
    for_time: Duration,
) -> Result<(), sqlx::Error> {
    sqlx::query(HOLD).bind(consumer).bind(micros(for_time)).execute(connection).await?;
    Ok(())
}

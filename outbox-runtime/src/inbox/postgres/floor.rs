//! The floor of a consumer's dedup window (S7).
//!
//! A delivery reads the floor and meets the unique key in one statement. A floor is therefore announced first, and rows below it are
//! deleted only after a grace: by then no statement runs that still saw the old floor.

use std::time::Duration;

use sqlx::PgConnection;

use crate::inbox::FloorMove;

const PURGE: &str = "
WITH old AS MATERIALIZED (
    SELECT i.consumer, i.event_id FROM inbox_messages AS i JOIN inbox_floors AS f USING (consumer)
    WHERE i.consumer = $1 AND i.enqueued_at < f.floor AND i.state = 'Processed'
      AND f.announced_at < now() - $2 * interval '1 millisecond'
    ORDER BY i.enqueued_at, i.event_id LIMIT $3 FOR UPDATE OF i SKIP LOCKED
)
DELETE FROM inbox_messages AS i USING old WHERE i.consumer = old.consumer AND i.event_id = old.event_id";

/// A new floor is announced only after the old one was cleared away below.
const ANNOUNCE: &str = "
INSERT INTO inbox_floors AS f (consumer, floor, announced_at)
VALUES ($1, now() - $2 * interval '1 millisecond', now())
ON CONFLICT (consumer) DO UPDATE SET floor = EXCLUDED.floor, announced_at = EXCLUDED.announced_at
WHERE f.floor < EXCLUDED.floor AND f.held_until < now() AND f.announced_at < now() - $3 * interval '1 millisecond'";

const HOLD: &str = "
INSERT INTO inbox_floors AS f (consumer, held_until) VALUES ($1, now() + $2 * interval '1 millisecond')
ON CONFLICT (consumer) DO UPDATE SET held_until = GREATEST(f.held_until, EXCLUDED.held_until)";

pub(crate) async fn move_floor(
    connection: &mut PgConnection,
    consumer: &str,
    floor: &FloorMove,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let purged =
        sqlx::query(PURGE).bind(consumer).bind(millis(floor.grace)).bind(limit).execute(&mut *connection).await?;
    let purged = purged.rows_affected();
    if purged == 0 && floor.advance {
        sqlx::query(ANNOUNCE)
            .bind(consumer)
            .bind(millis(floor.keep))
            .bind(millis(floor.grace))
            .execute(connection)
            .await?;
    }
    Ok(purged)
}

pub(crate) async fn hold_floor(
    connection: &mut PgConnection,
    consumer: &str,
    for_time: Duration,
) -> Result<(), sqlx::Error> {
    let millis = i64::try_from(for_time.as_millis()).unwrap_or(i64::MAX);
    sqlx::query(HOLD).bind(consumer).bind(millis).execute(connection).await?;
    Ok(())
}

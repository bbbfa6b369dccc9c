//! The announcement that relays sleep, and what is said on the channel (R5).
//!
//! Nothing here is flushed (R1): a lost announcement costs a poll interval, and a commit that notifies holds a lock of the whole server. Nothing
//! here waits for the row: whoever holds it is announcing or withdrawing at this moment.

use std::time::Duration;

use sqlx::PgConnection;

use crate::outbox::Heard;
use crate::outbox::postgres::millis;

/// An announcement that lasts for two thirds of the time is left as it is: of many relays one writes.
const ANNOUNCE: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
free AS MATERIALIZED (
    SELECT one FROM outbox_wakeup
    WHERE asleep_until < clock_timestamp() + $1 * interval '1 millisecond' * 2 / 3 FOR UPDATE SKIP LOCKED
)
UPDATE outbox_wakeup AS w SET asleep_until = clock_timestamp() + $1 * interval '1 millisecond'
FROM free, unflushed WHERE w.one = free.one";

const WITHDRAW: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
free AS MATERIALIZED (SELECT one FROM outbox_wakeup WHERE asleep_until > '-infinity' FOR UPDATE SKIP LOCKED)
UPDATE outbox_wakeup AS w SET asleep_until = '-infinity' FROM free, unflushed WHERE w.one = free.one";

const CHANNEL: &str = "SELECT channel FROM outbox_wakeup";

const SAY: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
SELECT count(pg_notify($1, $2)) FROM unflushed";

const SAY_ROUTED: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
SELECT count(pg_notify(channel || '_routed', $1)) FROM outbox_wakeup, unflushed";

pub(crate) async fn announce_sleep(connection: &mut PgConnection, for_time: Duration) -> Result<(), sqlx::Error> {
    sqlx::query(ANNOUNCE).bind(millis(for_time)).execute(connection).await?;
    Ok(())
}

pub(crate) async fn withdraw_sleep(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query(WITHDRAW).execute(connection).await?;
    Ok(())
}

/// Says that messages were put into queues; `by`: whose consumers know already.
pub(crate) async fn say_routed(connection: &mut PgConnection, by: &str) -> Result<(), sqlx::Error> {
    sqlx::query(SAY_ROUTED).bind(by).execute(connection).await?;
    Ok(())
}

/// Says something on one channel.
pub(super) async fn say(connection: &mut PgConnection, channel: &str, payload: &str) -> Result<(), sqlx::Error> {
    sqlx::query(SAY).bind(channel).bind(payload).execute(connection).await?;
    Ok(())
}

/// The channel of each thing that can be heard.
pub(super) async fn channel(connection: &mut PgConnection, heard: Heard) -> Result<String, sqlx::Error> {
    let channel: String = sqlx::query_scalar(CHANNEL).fetch_one(connection).await?;
    Ok(match heard {
        Heard::Enqueued => channel,
        Heard::Routed => format!("{channel}_routed"),
    })
}

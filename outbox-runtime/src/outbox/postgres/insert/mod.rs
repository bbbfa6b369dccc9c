//! Enqueue: one statement for one event, and one for many. Events that ask for order have statements of their own, so that the others do not pay
//! for their numbers.

mod bind;
mod many;
mod one;
mod ordered;
mod ordered_many;

use sqlx::PgConnection;

use crate::error::EnqueueError;
use crate::event::draft::Content;

/// Whoever writes while every relay sleeps wakes them (R5). Not correlated with the rows: it is asked once for each statement, and not at all by
/// one that writes nothing.
macro_rules! wake {
    () => {
        "(SELECT count(pg_notify(channel, '')) FROM outbox_wakeup WHERE asleep_until > clock_timestamp())"
    };
}
pub(in crate::outbox::postgres) use wake;

pub(crate) async fn insert(connection: &mut PgConnection, contents: &[Content]) -> Result<(), EnqueueError> {
    let ordered = contents.iter().any(|content| content.descriptor.ordered);
    match contents {
        [] => Ok(()),
        [event] if ordered => ordered::insert(connection, event).await,
        [event] => one::insert(connection, event).await,
        events if ordered => ordered_many::insert(connection, events).await,
        events => many::insert(connection, events).await,
    }
}

//! Every kind of argument and result, in any order, with patterns and lifetimes.

use outbox::{
    Cancelled, Emit, Enqueue, EnqueueError, EventId, FromDelivery, HandlerError, IdempotencyKey, Message, Metadata,
    Outcome, State, Store, event, handler,
};
use sqlx::{PgConnection, PgTransaction, Postgres, Transaction};

/// An event.
#[event(name = "a.moved", version = 2, key = id)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Moved {
    /// Which.
    pub id: u64,
}

/// A value that is taken apart in the argument list.
#[derive(Debug)]
pub struct Pair(u8, u8);

impl FromDelivery for Pair {
    fn from_delivery(_: &outbox::Delivery<'_>) -> Result<Self, HandlerError> {
        Ok(Self(1, 2))
    }
}

#[allow(clippy::too_many_arguments)]
#[handler(consumer = "hostile", timeout = "30s", concurrency = 2, prefetch = 4)]
async fn arguments(
    message: Message<Moved>,
    Pair(low, high): Pair,
    emit: &mut Emit,
    key: IdempotencyKey,
    mut cancelled: Cancelled,
    db: &mut PgConnection,
    _: Metadata,
    config: State<String>,
) -> Result<(Option<Moved>, Vec<Moved>), HandlerError> {
    let _ = (&message, low, high, &key, &mut cancelled, db, &config);
    emit.event(&message.event).map_err(HandlerError::retryable)?;
    Ok((None, vec![]))
}

/// A handler whose name is that of generated code, and that is public.
///
/// # Errors
/// Never.
#[handler(consumer = "hostile")]
pub async fn call(
    event: Moved,
    tx: &mut PgTransaction<'_>,
) -> Result<Outcome, Box<dyn std::error::Error + Send + Sync>> {
    event.enqueue(tx).await?;
    Ok(Outcome::Done)
}

/// The methods of an event, on any database.
///
/// # Errors
/// Those of the methods.
pub async fn produce<DB: Store>(event: &Moved, tx: &mut Transaction<'_, DB>) -> Result<EventId, EnqueueError> {
    event.enqueue(tx).await?;
    event.enqueue_with(tx, Enqueue::new().header("tenant", "acme")).await?;
    outbox::enqueue_all(tx, [event.draft()]).await.map(|mut ids| ids.swap_remove(0))
}

#[handler(consumer = "hostile")]
#[allow(clippy::elidable_lifetime_names)]
pub(crate) async fn with_lifetime<'a, 'c>(_event: Moved, _tx: &'a mut Transaction<'c, Postgres>) -> sqlx::Result<()> {
    Ok(())
}

/// An error that knows what it means.
#[derive(Debug)]
pub struct Fatal;

impl From<Fatal> for outbox::BoxError {
    fn from(_: Fatal) -> Self {
        "fatal".into()
    }
}

impl outbox::Classify for Fatal {
    fn classify(&self) -> outbox::Class {
        outbox::Class::Dead
    }
}

#[handler(consumer = "hostile")]
async fn classified(_: Moved) -> Result<(), Fatal> {
    Err(Fatal)
}

/// It stays callable, and its future can be sent.
#[test]
fn a_handler_is_still_a_function() {
    fn sendable<T: Send>(_: T) {}
    let _ = |tx: &mut PgTransaction<'_>| sendable(call(Moved { id: 1 }, tx));
}

#[cfg(test)]
mod descriptors {
    use std::time::Duration;

    use super::Moved;
    use outbox::Event;

    #[test]
    fn hold_what_was_written() {
        let [handler] = outbox::handlers![super::arguments];
        assert_eq!(handler.settings.timeout, Some(Duration::from_secs(30)));
        assert_eq!((handler.settings.concurrency, handler.settings.prefetch), (Some(2), Some(4)));
        assert_eq!(handler.database, Some(outbox::DatabaseKind::Postgres));
        assert_eq!(handler.event, Moved::DESCRIPTOR);
        assert!(handler.file.ends_with("arguments.rs"));
        assert_eq!(Moved::DESCRIPTOR.version, 2);
        assert_eq!(Moved { id: 7 }.key().as_deref(), Some("7"));
    }
}

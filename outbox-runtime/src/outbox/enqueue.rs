//! Writing events: one statement, whatever their number and types.

use std::collections::HashSet;

use sqlx::Transaction;

use crate::error::EnqueueError;
use crate::event::{Draft, Enqueue, Event, EventId};
use crate::outbox::wake;
use crate::store::Store;

/// Writes one event in the caller's transaction: one statement. `#[event]` generates the methods that call it.
///
/// # Errors
/// [`EnqueueError::Invalid`] before anything is sent; [`EnqueueError::Duplicate`] with the transaction still usable;
/// [`EnqueueError::Database`] with the transaction aborted.
///
/// # Cancel safety
/// Dropped half-way, the row may or may not be in the transaction: roll it back.
pub async fn enqueue<E: Event, DB: Store>(
    event: &E,
    options: Enqueue,
    tx: &mut Transaction<'_, DB>,
) -> Result<EventId, EnqueueError> {
    let mut ids = insert::<DB>(&mut *tx, vec![Draft::new(event, options)]).await?;
    // `insert` returns one id for each draft or an error.
    Ok(ids.swap_remove(0))
}

/// Writes any number of events, of mixed types, in one statement, and returns their ids in the same order.
///
/// Events with `ordered` get their numbers in the order of the drafts. Their keys are locked until the transaction ends, in one order whatever the
/// drafts' is: two calls never deadlock, as single enqueues of the same keys may.
///
/// ```ignore
/// let ids = outbox::enqueue_all(&mut tx, orders.iter().map(OrderCreated::draft)).await?;
/// ```
///
/// # Errors
/// As `enqueue`. Nothing is written unless everything is.
///
/// # Cancel safety
/// Dropped half-way, the rows may or may not be in the transaction: roll it back.
pub async fn enqueue_all<DB: Store>(
    tx: &mut Transaction<'_, DB>,
    drafts: impl IntoIterator<Item = Draft>,
) -> Result<Vec<EventId>, EnqueueError> {
    insert::<DB>(&mut *tx, drafts.into_iter().collect()).await
}

/// The escape hatch for other ORMs: writes events on a bare connection. **If no transaction is open on it, each event is committed at
/// once, whatever happens to the business change that it tells of**: that is the dual write which an outbox exists to prevent.
///
/// # Errors
/// As [`enqueue_all`].
pub async fn enqueue_on_connection<DB: Store>(
    connection_with_an_open_transaction: &mut DB::Connection,
    drafts: impl IntoIterator<Item = Draft>,
) -> Result<Vec<EventId>, EnqueueError> {
    insert::<DB>(connection_with_an_open_transaction, drafts.into_iter().collect()).await
}

pub(crate) async fn insert<DB: Store>(
    connection: &mut DB::Connection,
    drafts: Vec<Draft>,
) -> Result<Vec<EventId>, EnqueueError> {
    if drafts.is_empty() {
        return Ok(Vec::new());
    }
    let mut contents = Vec::with_capacity(drafts.len());
    for draft in drafts {
        contents.push(draft.content?);
    }
    let repeated: Vec<EventId> = {
        let mut seen = HashSet::with_capacity(contents.len());
        contents
            .iter()
            .filter(|content| !seen.insert(&content.event_id))
            .map(|content| content.event_id.clone())
            .collect()
    };
    if !repeated.is_empty() {
        return Err(EnqueueError::Duplicate { ids: repeated });
    }
    DB::insert(connection, &contents).await?;
    wake::ENQUEUED.signal();
    for content in &contents {
        metrics::counter!(crate::telemetry::names::ENQUEUED, "event" => content.descriptor.name).increment(1);
    }
    Ok(contents.into_iter().map(|content| content.event_id).collect())
}

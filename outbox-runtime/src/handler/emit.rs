//! Events that a handler collects while it runs; they are written in its own transaction after it.

use crate::error::EnqueueError;
use crate::event::{Draft, Enqueue, Event, EventId};

/// The collector of outgoing events: a handler takes `&mut Emit`.
///
/// ```ignore
/// #[outbox::handler(consumer = "inventory")]
/// async fn reserve(order: OrderCreated, emit: &mut outbox::Emit) -> outbox::Result<()> {
///     emit.event(&StockReserved { order_id: order.order_id })?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Default)]
pub struct Emit {
    pub(crate) drafts: Vec<Draft>,
}

impl Emit {
    /// An empty collector, for a unit test of a handler.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event.
    ///
    /// # Errors
    /// [`EnqueueError::Invalid`] if it cannot be encoded or its key does not fit.
    pub fn event<E: Event>(&mut self, event: &E) -> Result<EventId, EnqueueError> {
        self.event_with(event, Enqueue::new())
    }

    /// Adds an event with options.
    ///
    /// # Errors
    /// As [`event`](Self::event), and for options that do not fit.
    pub fn event_with<E: Event>(&mut self, event: &E, options: Enqueue) -> Result<EventId, EnqueueError> {
        let content = Draft::new(event, options).content?;
        let id = content.event_id.clone();
        self.drafts.push(Draft { content: Ok(content) });
        Ok(id)
    }

    /// How many events were collected.
    pub fn len(&self) -> usize {
        self.drafts.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.drafts.is_empty()
    }
}

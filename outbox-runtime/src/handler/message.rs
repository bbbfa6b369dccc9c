//! A handler's first argument: the event, or the event with its metadata.

use std::ops::Deref;

use crate::error::HandlerError;
use crate::event::{Event, EventDescriptor, Metadata};
use crate::handler::{Delivery, FromDelivery};

/// An event together with its metadata.
///
/// ```ignore
/// #[outbox::handler(consumer = "inventory")]
/// async fn reserve(order: outbox::Message<OrderCreated>) -> outbox::Result<()> {
///     println!("{} of {:?}", order.event.order_id, order.metadata.occurred_at());
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Message<E> {
    /// The event.
    pub event: E,
    /// Everything beside the event's own fields.
    pub metadata: Metadata,
}

impl<E> Message<E> {
    /// For a unit test of a handler.
    pub fn new(event: E, metadata: Metadata) -> Self {
        Self { event, metadata }
    }
}

impl<E> Deref for Message<E> {
    type Target = E;
    fn deref(&self) -> &E {
        &self.event
    }
}

impl<E: Event> FromDelivery for Message<E> {
    fn from_delivery(delivery: &Delivery<'_>) -> Result<Self, HandlerError> {
        Ok(Self { event: E::from_delivery(delivery)?, metadata: delivery.metadata.clone() })
    }
}

/// What can be a handler's first argument.
#[diagnostic::on_unimplemented(
    message = "a handler's first argument is its event, and `{Self}` is none",
    label = "expected an event",
    note = "take a type with `#[outbox::event(..)]` by value, or `outbox::Message<E>` around one"
)]
pub trait EventArgument: Sized {
    /// What is known of the event.
    const DESCRIPTOR: &'static EventDescriptor;

    /// For generated code: [`FromDelivery::from_delivery`] by this trait's name, so that a wrong first argument is one error.
    ///
    /// # Errors
    /// As [`FromDelivery::from_delivery`].
    #[doc(hidden)]
    fn take(delivery: &Delivery<'_>) -> Result<Self, HandlerError>;
}

#[diagnostic::do_not_recommend]
impl<E: Event> EventArgument for E {
    const DESCRIPTOR: &'static EventDescriptor = E::DESCRIPTOR;

    fn take(delivery: &Delivery<'_>) -> Result<Self, HandlerError> {
        Self::from_delivery(delivery)
    }
}

#[diagnostic::do_not_recommend]
impl<E: Event> EventArgument for Message<E> {
    const DESCRIPTOR: &'static EventDescriptor = E::DESCRIPTOR;

    fn take(delivery: &Delivery<'_>) -> Result<Self, HandlerError> {
        Self::from_delivery(delivery)
    }
}

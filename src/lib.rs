//! Reliable event-driven services: transactional outbox and inbox as procedural macros.

pub use outbox_macros::{consumer, event, handler, handlers, link};
pub use outbox_runtime::{
    BoxError, Cancelled, Class, Classify, DatabaseKind, Delivery, Draft, Emit, Enqueue, EnqueueError, Envelope, Error,
    Event, EventDescriptor, EventId, FromDelivery, HandlerDescriptor, HandlerError, HeaderMap, IdempotencyKey,
    IntoEvents, IntoOutcome, Message, Metadata, Outcome, Problem, Requirements, Result, StartError, StartProblem,
    State, Store, Unroutable, enqueue_all, enqueue_on_connection, trace,
};

/// What generated code uses. Not part of the public API: it changes with every release.
#[doc(hidden)]
pub mod __private {
    // The second step of `#[event]`, beside the trait of the same name.
    pub use outbox_macros::Event;
    pub use outbox_runtime::__private::*;
}

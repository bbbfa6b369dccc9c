//! Reliable event-driven services: transactional outbox and inbox as procedural macros.

pub use outbox_macros::{consumer, event, handler, handlers, link};
pub use outbox_runtime::{
    BoxError, Cancelled, Class, Classify, DatabaseKind, Delivery, Draft, Emit, Enqueue, EnqueueError, Envelope, Error,
    Event, EventDescriptor, EventId, FromDelivery, HandlerDescriptor, HandlerError, HeaderMap, IdempotencyKey,
    IntoEvents, IntoOutcome, Message, Metadata, Outcome, Problem, Requirements, Result, StartError, StartProblem,
    State, Store, Unroutable, enqueue_all, enqueue_on_connection, trace,
};

#[doc(hidden)]
pub use outbox_runtime::__private;

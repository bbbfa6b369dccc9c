#![doc = include_str!("../README.md")]

pub use outbox_macros::{consumer, event, handler, handlers, link};
pub use outbox_runtime::{
    Alert, AlertAnswer, Archive, BoxError, Broker, Cancel, Cancelled, Class, Classify, ComponentHealth,
    ConsumerOptions, Database, DatabaseKind, Declare, Delivery, Draft, Emit, Enqueue, EnqueueError, Envelope, Error,
    Event, EventDescriptor, EventId, EventStatus, FromDelivery, HandlerDescriptor, HandlerError, HeaderMap, Health,
    IdempotencyKey, IntoEvents, IntoOutcome, Message, Metadata, Migrations, OnFailed, Outcome, Problem, Requirements,
    Result, Retention, Role, Runtime, RuntimeBuilder, StartError, StartProblem, State, Store, Unroutable, admin, begin,
    cancel, cancel_on_connection, enqueue_all, enqueue_on_connection, migrate, migrations, runtime, telemetry, trace,
};

/// What generated code uses. Not part of the public API: it changes with every release.
#[doc(hidden)]
pub mod __private {
    // The second step of `#[event]`, beside the trait of the same name.
    pub use outbox_macros::Event;
    pub use outbox_runtime::__private::*;
}

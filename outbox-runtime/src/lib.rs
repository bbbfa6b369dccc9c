//! The runtime behind `outbox`. Use the facade crate `outbox`, which re-exports what is public here beside the macros.
#![cfg_attr(
    not(all(feature = "rabbitmq", any(feature = "postgres", feature = "sqlite"))),
    allow(dead_code, unused_imports, reason = "what a database or a broker that is not compiled in would use")
)]

pub mod admin;
pub mod alert;
mod backoff;
pub mod broker;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod consumer;
pub mod error;
pub mod event;
pub mod handler;
mod inbox;
pub mod migrations;
pub mod outbox;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod pace;
mod queue;
mod raw;
mod registry;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod relay;
pub mod runtime;
mod store;
pub mod telemetry;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod window;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use crate::alert::{Alert, AlertAnswer};
pub use crate::broker::{Broker, Declare};
pub use crate::error::{
    BoxError, Class, Classify, EnqueueError, Error, HandlerError, Problem, Result, StartError, StartProblem,
};
pub use crate::event::{
    Draft, Enqueue, Envelope, Event, EventDescriptor, EventId, HeaderMap, Metadata, OnFailed, Unroutable, trace,
};
pub use crate::handler::{
    Cancelled, DatabaseKind, Delivery, Emit, FromDelivery, HandlerDescriptor, IdempotencyKey, IntoEvents, IntoOutcome,
    Message, Outcome, Requirements, State,
};
pub use crate::outbox::{Cancel, EventStatus, begin, cancel, cancel_on_connection, enqueue_all, enqueue_on_connection};
pub use crate::runtime::{
    Archive, ComponentHealth, ConsumerOptions, Database, Health, Migrations, Retention, Role, Runtime, RuntimeBuilder,
    migrate,
};
pub use crate::store::Store;

/// The exchange of events that name none.
pub const DEFAULT_EXCHANGE: &str = "outbox.events";

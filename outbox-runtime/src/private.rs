//! What generated code uses. Not part of the public API: it changes with every release.

pub use crate::__register as register;
pub use crate::error::{EnqueueError, HandlerError};
pub use crate::event::name;
pub use crate::event::{Draft, Enqueue, Envelope, Event, EventDescriptor, EventId, KeyField, OnFailed, Unroutable};
pub use crate::handler::*;
pub use crate::outbox::enqueue;
#[cfg(feature = "linkme")]
pub use crate::registry::link::REGISTRATIONS;
pub use crate::registry::link::{Registration, linked};
pub use crate::store::Store;
pub use inventory;
#[cfg(feature = "linkme")]
pub use linkme;
pub use sqlx::Transaction;

/// Whether a message with this routing key goes to a queue with this binding, for the test that asks RabbitMQ the same.
#[doc(hidden)]
pub fn topic_matches(binding_key: &str, routing_key: &str) -> bool {
    crate::broker::topic::matches(binding_key, routing_key)
}

/// Fails to compile if a const path holds no event name.
#[allow(clippy::panic, reason = "a panic in a constant is a compile error")]
pub const fn check_event_name(text: &str) {
    if name::event_name(text).is_err() {
        panic!(
            "an event's name is words of letters, digits, `-` and `_` joined by dots, at most 128 bytes, not `amq.*`"
        );
    }
}

/// Fails to compile if a const path holds no aggregate name.
#[allow(clippy::panic, reason = "a panic in a constant is a compile error")]
pub const fn check_aggregate_name(text: &str) {
    if name::event_name(text).is_err() {
        panic!(
            "an aggregate's name is words of letters, digits, `-` and `_` joined by dots, at most 128 bytes, not `amq.*`"
        );
    }
}

/// Fails to compile if a const path holds no consumer name.
#[allow(clippy::panic, reason = "a panic in a constant is a compile error")]
pub const fn check_consumer_name(text: &str) {
    if name::consumer_name(text).is_err() {
        panic!(
            "a consumer's name is words of letters, digits, `-` and `_` joined by dots, at most 128 bytes, not `amq.*`"
        );
    }
}

/// Fails to compile if a const path holds no exchange name.
#[allow(clippy::panic, reason = "a panic in a constant is a compile error")]
pub const fn check_exchange_name(text: &str) {
    if name::exchange_name(text).is_err() {
        panic!("an exchange's name has 1 to 255 bytes without control characters and does not begin with `amq.`");
    }
}

/// Fails to compile if a const path holds no queue name.
#[allow(clippy::panic, reason = "a panic in a constant is a compile error")]
pub const fn check_queue_name(text: &str) {
    if name::queue_name(text).is_err() {
        panic!(
            "a queue's name has 1 to 244 bytes (255 less our suffixes) without control characters and does not begin with `amq.`"
        );
    }
}

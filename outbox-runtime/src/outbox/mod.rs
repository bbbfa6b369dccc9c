//! The outbox: events written in the caller's own transaction, claimed and settled by the relay.

mod enqueue;
pub(crate) mod wake;

pub use self::enqueue::{enqueue, enqueue_all, enqueue_on_connection};

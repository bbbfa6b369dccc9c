//! The broker "database": queues, bindings and messages as rows, beside the outbox and the inbox.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod message;
mod row;

pub(crate) use self::message::message;
pub use self::row::{QueueClaim, QueueKey, QueueRow, RouteClaim, RoutedRow};

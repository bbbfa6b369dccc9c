//! The broker "database": queues, bindings and messages as rows, beside the outbox and the inbox.

mod message;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod row;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

pub(crate) use self::message::message;
pub(crate) use self::row::{QueueClaim, QueueKey, QueueRow, RouteClaim, Routed, RoutedRow};

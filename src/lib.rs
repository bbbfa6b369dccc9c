//! Reliable event-driven services: transactional outbox and inbox as procedural macros.

pub use outbox_macros::{consumer, event, handler, handlers, link};
pub use outbox_runtime::*;

#[doc(hidden)]
pub use outbox_runtime::__private;

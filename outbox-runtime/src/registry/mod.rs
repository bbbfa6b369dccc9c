//! The set of events, handlers and consumers that a runtime works with.

pub(crate) mod link;

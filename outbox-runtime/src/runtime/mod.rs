//! Putting it together: one call starts relays and consumers.

pub(crate) mod health;
pub(crate) mod supervise;

//! The turn to write: a database with one writer at a time hands it out in order, so that nobody waits for ever.

use tokio::sync::OwnedMutexGuard;

/// The right to open a transaction that writes. A database with many writers hands out as many as are asked for.
#[derive(Debug, Default)]
pub struct Turn {
    /// Held, not read: dropping it lets the next one in.
    _queue: Option<OwnedMutexGuard<()>>,
}

impl Turn {
    /// One of many.
    pub(crate) const fn free() -> Self {
        Self { _queue: None }
    }

    /// The only one.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "the other databases have many writers"))]
    pub(crate) const fn only(queue: OwnedMutexGuard<()>) -> Self {
        Self { _queue: Some(queue) }
    }
}

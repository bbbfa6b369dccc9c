//! The in-process hint that something was enqueued. It fires before the caller's commit, so a relay that gets it scans a few times.

use std::sync::LazyLock;

use tokio::sync::watch;

static ENQUEUED: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::Sender::new(0));

/// Tells every relay of this process that a row is about to be committed.
pub(crate) fn signal() {
    ENQUEUED.send_modify(|count| *count = count.wrapping_add(1));
}

/// A receiver that sees every later signal.
pub(crate) fn listen() -> watch::Receiver<u64> {
    ENQUEUED.subscribe()
}

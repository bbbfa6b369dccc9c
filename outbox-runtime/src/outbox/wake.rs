//! In-process hints that something is there to do. Whoever hears one scans; whoever misses one scans a little later.

use std::sync::LazyLock;

use tokio::sync::watch;

/// A hint that every part of this process can give and hear.
pub(crate) struct Wake(LazyLock<watch::Sender<u64>>);

/// A row of the outbox is about to be committed: it fires before the caller's commit, so a relay that hears it scans a few times.
pub(crate) static ENQUEUED: Wake = Wake(LazyLock::new(|| watch::Sender::new(0)));
/// Messages were put into queues of the database.
pub(crate) static ROUTED: Wake = Wake(LazyLock::new(|| watch::Sender::new(0)));

impl Wake {
    /// Gives the hint.
    pub(crate) fn signal(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// A receiver that sees every later hint.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

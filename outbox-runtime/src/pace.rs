//! How often a consumer looks into its queue of the database when there was nothing: at once after a hint, and less and less often without one.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::outbox::wake::Wake;

/// The first pause after a scan that found nothing; it doubles up to the longest one.
const SHORTEST: Duration = Duration::from_millis(2);

/// The pauses of one scanning loop.
pub(crate) struct Pace {
    hint: watch::Receiver<u64>,
    scanned: Instant,
    pause: Duration,
    longest: Duration,
}

impl Pace {
    pub(crate) fn new(wake: &Wake, longest: Duration) -> Self {
        Self { hint: wake.listen(), scanned: Instant::now(), pause: SHORTEST, longest }
    }

    /// Before a scan: hints from here on are new.
    pub(crate) fn scanning(&mut self) {
        self.hint.borrow_and_update();
        self.scanned = Instant::now();
    }

    /// After a scan that found something.
    pub(crate) fn found(&mut self) {
        self.pause = SHORTEST;
    }

    /// After a scan that found nothing: waits; `false` if the loop has to stop. A hint comes after the commit that it tells of: one scan
    /// answers it, and a crowd of hints is answered together.
    pub(crate) async fn rest(&mut self, stop: &CancellationToken) -> bool {
        tokio::select! {
            _ = self.hint.changed() => tokio::time::sleep_until(self.scanned + SHORTEST).await,
            () = tokio::time::sleep(self.pause) => self.pause = (self.pause * 2).min(self.longest),
            () = stop.cancelled() => return false,
        }
        true
    }
}

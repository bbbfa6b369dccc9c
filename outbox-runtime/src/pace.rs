//! How often to look for work when there was none: at once after a hint, then less and less often.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::outbox::wake::Wake;

/// The first pause after a scan that found nothing; it doubles up to the longest one.
const SHORTEST: Duration = Duration::from_millis(2);

/// The pauses of one scanning loop.
pub(crate) struct Pace {
    hint: watch::Receiver<u64>,
    pause: Duration,
    longest: Duration,
}

impl Pace {
    pub(crate) fn new(wake: &Wake, longest: Duration) -> Self {
        Self { hint: wake.listen(), pause: SHORTEST, longest }
    }

    /// Before a scan: hints from here on are new.
    pub(crate) fn scanning(&mut self) {
        self.hint.borrow_and_update();
    }

    /// After a scan that found something.
    pub(crate) fn found(&mut self) {
        self.pause = SHORTEST;
    }

    /// After a scan that found nothing: waits; `false` if the loop has to stop. A hint may come before the commit that it tells of: the next
    /// scans follow soon, and then less and less often.
    pub(crate) async fn rest(&mut self, stop: &CancellationToken) -> bool {
        tokio::select! {
            _ = self.hint.changed() => self.pause = SHORTEST,
            () = tokio::time::sleep(self.pause) => {}
            () = stop.cancelled() => return false,
        }
        tokio::time::sleep(SHORTEST).await;
        self.pause = (self.pause * 2).min(self.longest);
        true
    }
}

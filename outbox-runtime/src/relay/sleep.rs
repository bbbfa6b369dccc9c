//! How often a relay looks for due rows (R5). While events flow it looks every few milliseconds; after a second without any it announces that it
//! sleeps, and looks less and less often, until somebody tells it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::outbox::wake;
use crate::relay::Relay;
use crate::store::Store;
use crate::telemetry::names;

/// The first pause after a scan that found nothing; it doubles.
const SHORTEST: Duration = Duration::from_millis(2);
/// The longest pause of a relay that is awake, where enqueues notify only those that sleep.
const AWAKE: Duration = Duration::from_millis(10);
/// How long it stays awake after the last event, or hint of one.
const STAYS_AWAKE: Duration = Duration::from_secs(1);

/// The pauses of a relay's scanning loop.
pub(super) struct Sleep<DB: Store> {
    relay: Arc<Relay<DB>>,
    /// Hints of this process. They come before the commit that they tell of.
    enqueued: watch::Receiver<u64>,
    /// Hints of other processes. They come after it.
    heard: watch::Receiver<u64>,
    /// The announcement was committed.
    announced: watch::Receiver<u64>,
    pause: Duration,
    /// The last event, or hint of one.
    stirred: Instant,
    asleep: bool,
}

impl<DB: Store> Sleep<DB> {
    pub(super) fn new(relay: &Arc<Relay<DB>>) -> Self {
        relay.announcer.awake();
        Self {
            relay: Arc::clone(relay),
            enqueued: wake::ENQUEUED.listen(),
            heard: relay.ear.enqueued(),
            announced: relay.announcer.announced(),
            pause: SHORTEST,
            stirred: Instant::now(),
            asleep: false,
        }
    }

    /// Before a scan: hints from here on are new.
    pub(super) fn scanning(&mut self) {
        let seen = |hints: &mut watch::Receiver<u64>| {
            let new = hints.has_changed().unwrap_or(false);
            hints.borrow_and_update();
            new
        };
        let (heard, enqueued) = (seen(&mut self.heard), seen(&mut self.enqueued));
        if heard || enqueued {
            // What the last one tells of may not be committed yet: the next scans follow soon.
            self.wake(if heard { "notification" } else { "in_process" });
        }
    }

    /// After a scan that found something.
    pub(super) fn found(&mut self) {
        self.wake("poll");
    }

    /// After a scan that found nothing: waits; `false` if the loop has to stop.
    pub(super) async fn rest(&mut self) -> bool {
        let awake = self.stirred.elapsed() < STAYS_AWAKE;
        if !awake && !self.asleep {
            self.asleep = true;
            self.relay.announcer.asleep();
        }
        let longest = if awake && DB::NOTIFIES { AWAKE } else { self.relay.config.poll };
        tokio::select! {
            biased;
            () = self.relay.stop.cancelled() => return false,
            _ = self.heard.changed() => {
                // Committed: there is nothing to wait for, unless a crowd of hints comes to one that is awake.
                if !self.wake("notification") {
                    tokio::time::sleep(SHORTEST).await;
                }
            }
            _ = self.enqueued.changed() => {
                self.wake("in_process");
                tokio::time::sleep(SHORTEST).await;
            }
            // What was enqueued shortly before did not notify: look for it as if it were new.
            _ = self.announced.changed() => self.pause = SHORTEST,
            () = tokio::time::sleep(self.pause.min(longest)) => {
                self.pause = (self.pause * 2).min(self.relay.config.poll);
            }
        }
        true
    }

    /// Something is there, or soon will be; whether the relay slept.
    fn wake(&mut self, source: &'static str) -> bool {
        let slept = std::mem::take(&mut self.asleep);
        self.stirred = Instant::now();
        self.pause = SHORTEST;
        if slept {
            self.relay.announcer.awake();
            metrics::counter!(names::WAKEUPS, "source" => source).increment(1);
        }
        slept
    }
}

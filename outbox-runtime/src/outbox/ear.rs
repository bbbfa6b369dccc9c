//! What a runtime hears from other processes by way of the database (R5). Everything that is heard is a hint.

use tokio::sync::watch;

use crate::outbox::wake;
use crate::telemetry::names;

/// What was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// An event was committed while relays slept.
    Enqueued,
    /// Messages were put into queues of the database.
    Routed,
}

/// Where the listener tells what it hears, and whether it hears anything at all.
#[derive(Debug)]
pub struct Ear {
    name: String,
    wants: Vec<Heard>,
    enqueued: watch::Sender<u64>,
    listening: watch::Sender<bool>,
}

#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only PostgreSQL notifies"))]
impl Ear {
    /// An ear for these.
    pub(crate) fn new(wants: Vec<Heard>) -> Self {
        Self {
            name: ulid::Ulid::new().to_string(),
            wants,
            enqueued: watch::Sender::new(0),
            listening: watch::Sender::new(false),
        }
    }

    /// A name that no other ear has: what this runtime said itself need not be heard.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What there is to listen for.
    pub(crate) fn wants(&self) -> &[Heard] {
        &self.wants
    }

    /// The listener proved that it hears. What was said before that may have been missed: everybody looks.
    pub(crate) fn opened(&self) {
        metrics::gauge!(names::LISTENING).set(1.0);
        self.listening.send_replace(true);
        for heard in &self.wants {
            self.hear(*heard);
        }
    }

    /// The listener does not hear any more; whether it did.
    pub(crate) fn closed(&self) -> bool {
        metrics::gauge!(names::LISTENING).set(0.0);
        self.listening.send_replace(false)
    }

    /// Passes on what was heard.
    pub(crate) fn hear(&self, heard: Heard) {
        match heard {
            Heard::Enqueued => self.enqueued.send_modify(|count| *count = count.wrapping_add(1)),
            Heard::Routed => wake::ROUTED.signal(),
        }
    }

    /// A receiver of hints that events were committed.
    pub(crate) fn enqueued(&self) -> watch::Receiver<u64> {
        self.enqueued.subscribe()
    }

    /// Whether the listener hears.
    pub(crate) fn listening(&self) -> watch::Receiver<bool> {
        self.listening.subscribe()
    }
}

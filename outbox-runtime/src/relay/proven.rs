//! Exchanges that took a batch, and those that have to show first that they do.
//!
//! A batch to an exchange that does not exist closes its channel while the rest of it is still being written. The client may write a message behind its own
//! answer to that close, where RabbitMQ expects a new channel: it closes the whole connection (504), with the batches of all other exchanges. So an exchange
//! that is not proven is asked with a single event, behind which nothing is written.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Names may be as many as there are rows written by hand; one that is forgotten is asked again.
const MOST: usize = 10_000;

/// The exchanges that answered for each event of their last batch.
#[derive(Debug, Default)]
pub(crate) struct Proven(Mutex<HashSet<String>>);

impl Proven {
    /// Whether a whole batch may be written at once.
    pub(crate) fn has(&self, exchange: &str) -> bool {
        self.known().contains(exchange)
    }

    /// It answered for each event of a batch.
    pub(crate) fn answers(&self, exchange: &str) {
        let mut known = self.known();
        if known.contains(exchange) {
            return;
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(exchange.to_owned());
    }

    /// A batch to it was closed.
    pub(crate) fn doubt(&self, exchange: &str) {
        self.known().remove(exchange);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Exchanges that take nothing at the moment: each backs off by itself, and no event pays for it (R3).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// Back-off by exchange.
#[derive(Debug, Default)]
pub(crate) struct Destinations(Mutex<HashMap<String, (u32, Instant)>>);

impl Destinations {
    /// How long the exchange still backs off.
    pub(crate) fn backing_off(&self, exchange: &str) -> Option<Duration> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(exchange).and_then(|(_, until)| until.checked_duration_since(Instant::now())).filter(|d| !d.is_zero())
    }

    /// The exchange refused something; returns how long it backs off now.
    pub(crate) fn refused(&self, exchange: &str) -> Duration {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known.entry(exchange.to_owned()).or_insert((0, Instant::now()));
        let delay = backoff::jitter(backoff::delay(FIRST, LONGEST, entry.0));
        *entry = (entry.0.saturating_add(1), Instant::now() + delay);
        delay
    }

    /// The exchange took something.
    pub(crate) fn accepted(&self, exchange: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(exchange);
    }
}

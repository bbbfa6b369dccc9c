//! Destinations that take nothing at the moment: each backs off by itself, and no event pays for it (R3).
//!
//! A destination is an exchange with a routing key: what is full is a queue, and a queue is bound by keys. One that takes some events and not
//! others is not full; there only those that it did not take wait.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::alert::{Alert, Alerts};
use crate::backoff;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// Keys may be as many as there are rows written by hand; what is forgotten is asked again.
const MOST: usize = 10_000;

/// How long others leave a destination alone that is being asked.
pub(super) const ASKING: Duration = Duration::from_secs(5);
/// A queue whose replicas have no majority neither takes a message nor refuses it.
pub(super) const SILENT: &str =
    "the broker gave no answer in time (no confirm): a queue that wants it may have no majority of its replicas";

/// A text with the names of the exchange, the vhost and the user, which the broker cuts after 252 bytes.
pub(super) const UNREADABLE: &str = "the broker's answer cannot be read, it is cut within a character: declare the exchange if it is missing, and allow this user \
                                     to write to it";

/// How often somebody is told of a destination that goes on taking nothing.
const TELLING: Duration = Duration::from_secs(60);

/// A destination that takes nothing.
#[derive(Debug)]
struct Refusals {
    /// How often it refused.
    count: u32,
    /// Until when it is left alone.
    until: Instant,
    why: &'static str,
    /// When somebody was told of it.
    told: Instant,
}

type Known = HashMap<(String, String), Refusals>;

/// Back-off by exchange and routing key.
#[derive(Debug, Default)]
pub(crate) struct Destinations {
    known: Mutex<Known>,
    alerts: Alerts,
}

impl Destinations {
    pub(super) fn new(alerts: Alerts) -> Self {
        Self { known: Mutex::default(), alerts }
    }

    /// How long the destination still backs off, and why.
    pub(crate) fn backing_off(&self, exchange: &str, routing_key: &str) -> Option<(Duration, &'static str)> {
        let known = self.known();
        // Asked for each event: in the usual case there is nothing to look for.
        if known.is_empty() {
            return None;
        }
        let refusals = known.get(&(exchange.to_owned(), routing_key.to_owned()))?;
        let rest = refusals.until.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero())?;
        Some((rest, refusals.why))
    }

    /// Whether the destination gave no answer at all the last time, or one that breaks the connection: it is asked with one event, and by one channel
    /// at a time.
    pub(crate) fn doubt(&self, exchange: &str, routing_key: &str) -> Option<&'static str> {
        let known = self.known();
        // Asked for each event, like the above.
        if known.is_empty() {
            return None;
        }
        let refusals = known.get(&(exchange.to_owned(), routing_key.to_owned()))?;
        [SILENT, UNREADABLE].contains(&refusals.why).then_some(refusals.why)
    }

    /// A destination in doubt is being asked: the others leave it alone meanwhile.
    pub(crate) fn ask(&self, exchange: &str, routing_key: &str) {
        if let Some(refusals) = self.known().get_mut(&(exchange.to_owned(), routing_key.to_owned())) {
            refusals.until = Instant::now() + ASKING;
        }
    }

    /// What an exchange said of a batch: the key of each event, and whether it was taken; `why` is for those that were not. Returns how long the
    /// refused events of a key wait.
    pub(crate) fn answered<'k>(
        &self,
        exchange: &str,
        answers: impl IntoIterator<Item = (&'k str, bool)>,
        why: &'static str,
    ) -> BTreeMap<&'k str, Duration> {
        // By key: whether any was taken, and whether any was not.
        let mut by_key: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
        for (routing_key, taken) in answers {
            let (some, none) = by_key.entry(routing_key).or_default();
            *some |= taken;
            *none |= !taken;
        }
        let mut known = self.known();
        let mut waits = BTreeMap::new();
        for (routing_key, (taken, refused)) in by_key {
            if taken
                && !known.is_empty()
                && let Some(was) = known.remove(&(exchange.to_owned(), routing_key.to_owned()))
            {
                tracing::info!(exchange, routing_key, refusals = was.count, "a destination takes events again");
            }
            if !refused {
                continue;
            }
            if taken {
                waits.insert(routing_key, backoff::jitter(FIRST));
                continue;
            }
            if known.len() >= MOST {
                known.clear();
            }
            let now = Instant::now();
            let refusals = known.entry((exchange.to_owned(), routing_key.to_owned())).or_insert(Refusals {
                count: 0,
                until: now,
                why,
                told: now,
            });
            let delay = backoff::jitter(backoff::delay(FIRST, LONGEST, refusals.count));
            let begins = refusals.count == 0;
            (refusals.count, refusals.until, refusals.why) = (refusals.count.saturating_add(1), now + delay, why);
            waits.insert(routing_key, delay);
            if begins || refusals.told.elapsed() >= TELLING {
                refusals.told = now;
                tracing::warn!(
                    exchange,
                    routing_key,
                    why,
                    refusals = refusals.count,
                    "a destination takes nothing; its events wait and spend nothing"
                );
            }
            if begins {
                self.alerts.raise(|| Alert::DestinationRefuses {
                    exchange: exchange.to_owned(),
                    routing_key: routing_key.to_owned(),
                    problem: why.to_owned(),
                });
            }
        }
        waits
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_keeps_only_its_own_key_waiting_and_longer_each_time() {
        let destinations = Destinations::default();
        let rest = |key| {
            destinations.backing_off("x", key).map(|(rest, why)| {
                assert_eq!(why, "full");
                rest
            })
        };
        let answered = |answers: &[(&'static str, bool)]| destinations.answered("x", answers.iter().copied(), "full");
        assert!(answered(&[("full", true), ("other", true)]).is_empty());
        let first = answered(&[("full", false), ("other", true), ("full", false)]);
        assert_eq!(first.keys().copied().collect::<Vec<_>>(), ["full"]);
        assert!((FIRST / 2..=FIRST).contains(&first["full"]));
        assert!(rest("full").is_some_and(|rest| rest <= first["full"]) && rest("other").is_none());
        assert!(destinations.backing_off("y", "full").is_none());

        tokio::time::advance(FIRST).await;
        assert!(rest("full").is_none());
        let second = answered(&[("full", false)]);
        assert!((FIRST..=FIRST * 2).contains(&second["full"]), "{second:?}");
        for _ in 0..10 {
            answered(&[("full", false)]);
        }
        assert!(rest("full").is_some_and(|rest| rest >= LONGEST / 3 && rest <= LONGEST));

        let mixed = answered(&[("full", true), ("full", false)]);
        assert!((FIRST / 2..=FIRST).contains(&mixed["full"]), "it takes something: only the others wait");
        assert!(rest("full").is_none());
    }
}

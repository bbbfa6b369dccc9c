//! What an operator gets to know of an event's way: metrics, and a log line where somebody may have to act.

use std::time::Duration;

use crate::alert::{Alert, Alerts};
use crate::outbox::Fate;
use crate::relay::fate::Word;
use crate::telemetry::{RepeatedBy, names};

/// What is told of an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) event_id: &'a str,
    pub(super) event_type: &'a str,
    pub(super) routing_key: &'a str,
    /// Attempts spent before this one.
    pub(super) attempt_count: i32,
}

#[cfg(feature = "rabbitmq")]
impl<'a> From<&'a crate::outbox::ClaimedRow> for Told<'a> {
    fn from(row: &'a crate::outbox::ClaimedRow) -> Self {
        Self {
            event_id: &row.event_id,
            event_type: &row.event_type,
            routing_key: &row.routing_key,
            attempt_count: row.budget.attempt_count,
        }
    }
}

/// Where a relay tells of events that are held.
#[derive(Debug, Default)]
pub(crate) struct Tell {
    /// One log line per event type, not per event.
    held: RepeatedBy,
    alerts: Alerts,
}

impl Tell {
    pub(super) fn new(alerts: Alerts) -> Self {
        Self { held: RepeatedBy::default(), alerts }
    }
}

/// Records a verdict and its fate; `latency` is the time since the event was written.
pub(super) fn record(event: Told<'_>, word: &Word, fate: &Fate, exchange: &str, latency: Duration, tell: &Tell) {
    let label = || event.event_type.to_owned();
    match word {
        Word::Published => {
            metrics::histogram!(names::PUBLISH_LATENCY_SECONDS, "event" => label()).record(latency);
        }
        Word::Unroutable(_) | Word::NoExchange(_) => {
            metrics::counter!(names::UNROUTABLE, "event" => label()).increment(1);
        }
        Word::Nacked { .. } => metrics::counter!(names::NACKED, "exchange" => exchange.to_owned()).increment(1),
        Word::Refused(_) => metrics::counter!(names::REFUSED, "event" => label()).increment(1),
        Word::Unknown(_) => metrics::counter!(names::UNKNOWN).increment(1),
    }
    match fate {
        Fate::Published => metrics::counter!(names::PUBLISHED, "event" => label()).increment(1),
        Fate::Failed { error, .. } => {
            metrics::counter!(names::FAILED, "event" => label()).increment(1);
            let attempts = event.attempt_count.saturating_add(1);
            tell.alerts.raise(|| Alert::EventFailed {
                event_id: event.event_id.to_owned(),
                event_type: event.event_type.to_owned(),
                exchange: exchange.to_owned(),
                routing_key: event.routing_key.to_owned(),
                attempts: u32::try_from(attempts).unwrap_or(0),
                error: error.clone(),
            });
            tracing::error!(event_id = %event.event_id, event = %event.event_type, %error, attempts, "an event is Failed: its attempts are spent");
        }
        Fate::Retry { spent: true, error, .. } if event.attempt_count == 0 => {
            // The count is the row's own: whoever relays it, this is its first failure.
            tell.alerts.raise(|| Alert::EventHeld {
                event_id: event.event_id.to_owned(),
                event_type: event.event_type.to_owned(),
                exchange: exchange.to_owned(),
                routing_key: event.routing_key.to_owned(),
                error: error.clone(),
            });
            if let Some(events) = tell.held.note(event.event_type, error) {
                tracing::warn!(event_id = %event.event_id, event = %event.event_type, events, %error, "an event is held; it is tried again with backoff");
            }
        }
        _ => {}
    }
}

//! One delivery, from the broker to its ack. It is acked when its effects are durable, or when it is parked durably; else never.

use std::time::Duration;

use chrono::Utc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::backoff;
use crate::consumer::Consumer;
use crate::consumer::attempt::{self, ENDED, End, Origin};
use crate::consumer::decide::{Decision, FailureKind, decide};
use crate::consumer::identify::{Incoming, identify};
use crate::consumer::park::{REUSED, TOO_OLD, for_a_person, new_parked, park, park_rejected};
use crate::inbox::{Disposition, NewParked, ParkedStatus, Reason};
use crate::queue::QueueKey;
use crate::raw::RawMessage;
use crate::store::Store;
use crate::telemetry::names;

/// Runs after a serialization failure or deadlock before it counts as the handler's failure.
pub(crate) const CONFLICTS: u32 = 50;
/// Lost connections of one message, with a database that works, before they count as the handler's failure.
pub(crate) const LOSSES: u32 = 3;

/// What becomes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// Its decision is durable: it may be acked.
    Decided,
    /// Its decision is durable, and with it the message has left its queue of the database.
    Taken,
    /// Nothing was decided: it has to be delivered again.
    Undecided,
}

/// Handles one delivery; out of a queue of the database, it leaves the queue in the transaction that decides on it. `given_up` ends the wait for
/// a lost database: the broker delivers again later.
pub(crate) async fn deliver<DB: Store>(
    consumer: &Consumer<DB>,
    raw: RawMessage,
    from: Option<&QueueKey>,
    given_up: &CancellationToken,
) -> Delivered {
    let incoming = match identify(&raw, &consumer.plan.name, consumer.max_body) {
        Ok(incoming) => incoming,
        Err(rejected) => {
            let parked = park_rejected(consumer, &raw, rejected);
            return park(consumer, parked, from, given_up).await;
        }
    };
    consumer.note_age(&incoming).await;
    let handler = match consumer.handler(&incoming) {
        Ok(handler) => handler,
        Err((reason, error)) => {
            let parked = new_parked(consumer, &raw, &incoming, ParkedStatus::Dead, reason, error, 0);
            return park(consumer, parked, from, given_up).await;
        }
    };
    let (mut runs, mut conflicts, mut losses) = (0_u32, 0_u32, 0_u32);
    let mut ended = None;
    loop {
        if !wait_for_database(consumer, given_up).await {
            return Delivered::Undecided;
        }
        let end = attempt::run(consumer, handler, &incoming, &raw.body, Origin::Delivery(from), runs + 1).await;
        let (kind, error) = match end {
            End::Committed => {
                consumer.record_effect(&incoming);
                return if from.is_some() { Delivered::Taken } else { Delivered::Decided };
            }
            End::Known(disposition) => {
                duplicate(consumer, &incoming, disposition);
                return Delivered::Decided;
            }
            End::Reused => {
                let mut parked =
                    new_parked(consumer, &raw, &incoming, ParkedStatus::Dead, Reason::IdReused, String::new(), 0);
                for_a_person(&mut parked, Reason::IdReused, REUSED);
                return park(consumer, parked, from, given_up).await;
            }
            End::TooOld => {
                let mut parked = new_parked(
                    consumer,
                    &raw,
                    &incoming,
                    ParkedStatus::Dead,
                    Reason::OlderThanWindow,
                    String::new(),
                    0,
                );
                for_a_person(&mut parked, Reason::OlderThanWindow, TOO_OLD);
                return park(consumer, parked, from, given_up).await;
            }
            // Abandoned: somebody else has the message of the database queue.
            End::Abandoned | End::Interrupted => return Delivered::Undecided,
            End::Conflict(error) => {
                metrics::counter!(names::CONFLICTS, "consumer" => consumer.plan.name.clone()).increment(1);
                conflicts += 1;
                if conflicts < CONFLICTS {
                    sleep(conflict_pause(conflicts)).await;
                    continue;
                }
                (FailureKind::Error, error)
            }
            End::NotBegun(error) => {
                consumer.lost(&error, &mut 0).await;
                continue;
            }
            End::Lost(error) => match consumer.lost(&error, &mut losses).await {
                Lost::Again => continue,
                Lost::HandlersFault(error) => (FailureKind::ConnectionLost, error),
            },
            End::Failed(kind, error) => (kind, error),
            End::Ended(stamp) => {
                ended = Some(stamp);
                (FailureKind::Ended, ENDED.to_owned())
            }
        };
        runs += 1;
        consumer.record_failure(&incoming, kind, &error, runs);
        let (status, reason) = match decide(kind, runs, false, handler.retry) {
            Decision::RunNow => continue,
            Decision::Park(after) => (ParkedStatus::Retrying { after }, Reason::HandlerFailed),
            Decision::Dead(reason) => (ParkedStatus::Dead, reason),
        };
        let parked = NewParked { ended, ..new_parked(consumer, &raw, &incoming, status, reason, error, runs) };
        return park(consumer, parked, from, given_up).await;
    }
}

/// What a lost connection means.
pub(crate) enum Lost {
    /// The database was down, or it may have been a coincidence.
    Again,
    /// It happens to this message only.
    HandlersFault(String),
}

impl<DB: Store> Consumer<DB> {
    /// After a lost connection: if the database answers at once, the loss is counted for this message; else everything pauses.
    pub(crate) async fn lost(&self, error: &str, losses: &mut u32) -> Lost {
        match super::gate::Gate::check(&self.pool).await {
            Ok(()) => {
                *losses += 1;
                if *losses >= LOSSES {
                    return Lost::HandlersFault(format!(
                        "the connection to the database was lost {losses} times while this message was handled, and the database is fine: {error}"
                    ));
                }
                sleep(backoff::jitter(Duration::from_millis(200))).await;
            }
            Err(probe) => self.gate.close(&probe),
        }
        Lost::Again
    }
}

/// Waits for a lost database; `false` if the subscription or the runtime ends first.
pub(crate) async fn wait_for_database<DB: Store>(consumer: &Consumer<DB>, given_up: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = consumer.gate.open() => true,
        () = given_up.cancelled() => false,
        () = consumer.abort.cancelled() => false,
    }
}

/// Up to half a second, more with each conflict.
pub(crate) fn conflict_pause(conflicts: u32) -> Duration {
    backoff::jitter(backoff::delay(Duration::from_millis(5), Duration::from_millis(500), conflicts.min(10)))
}

fn duplicate<DB: Store>(consumer: &Consumer<DB>, incoming: &Incoming, disposition: Disposition) {
    metrics::counter!(names::DUPLICATES, "consumer" => consumer.plan.name.clone()).increment(1);
    tracing::debug!(consumer = %consumer.plan.name, event_id = %incoming.metadata.event_id, ?disposition, "decided before; acked unrun");
}

impl<DB: Store> Consumer<DB> {
    pub(crate) fn record_effect(&self, incoming: &Incoming) {
        let labels = [("consumer", self.plan.name.clone()), ("event", incoming.metadata.event_type.clone())];
        metrics::counter!(names::HANDLED, &labels).increment(1);
        if let Some(enqueued_at) = incoming.entry.enqueued_at
            && let Ok(latency) = (Utc::now() - enqueued_at).to_std()
        {
            metrics::histogram!(names::EFFECT_LATENCY_SECONDS, &labels).record(latency);
        }
    }

    pub(crate) fn record_failure(&self, incoming: &Incoming, kind: FailureKind, error: &str, run: u32) {
        metrics::counter!(
            names::HANDLER_FAILURES, "consumer" => self.plan.name.clone(),
            "event" => incoming.metadata.event_type.clone(), "cause" => kind.as_str()
        )
        .increment(1);
        tracing::warn!(
            consumer = %self.plan.name, event = %incoming.metadata.event_type, event_id = %incoming.metadata.event_id,
            run, cause = kind.as_str(), %error, "a run failed"
        );
    }
}

//! One delivery, from the broker to its ack. It is acked when its effects are durable, or when it is parked durably; else never.

use std::time::Duration;

use chrono::Utc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::backoff;
use crate::broker::rabbitmq::consume::AckHandle;
use crate::consumer::Consumer;
use crate::consumer::attempt::{self, ENDED, End, Origin};
use crate::consumer::decide::{Decision, FailureKind, decide};
use crate::consumer::identify::{Incoming, Rejected, identify};
use crate::consumer::raw::RawMessage;
use crate::inbox::{Disposition, InboxRecord, NewParked, ParkedStatus, Reason};
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::names;

/// Runs after a serialization failure or deadlock before it counts as the handler's failure.
pub(crate) const CONFLICTS: u32 = 50;
/// Lost connections of one message, with a database that works, before they count as the handler's failure.
pub(crate) const LOSSES: u32 = 3;

/// Handles one delivery. `given_up` ends the wait for a lost database: the broker delivers again later.
pub(crate) async fn deliver<DB: Store>(
    consumer: &Consumer<DB>,
    raw: RawMessage,
    ack: AckHandle,
    given_up: CancellationToken,
) {
    if settle(consumer, raw, &given_up).await && !ack.ack().await {
        metrics::counter!(names::ACK_LOST, "consumer" => consumer.plan.name.clone()).increment(1);
    }
}

/// Whether the message may be acked.
async fn settle<DB: Store>(consumer: &Consumer<DB>, raw: RawMessage, given_up: &CancellationToken) -> bool {
    let incoming = match identify(&raw, &consumer.plan.name, consumer.max_body) {
        Ok(incoming) => incoming,
        Err(rejected) => {
            let parked = park_rejected(consumer, &raw, rejected);
            return park(consumer, parked, given_up).await;
        }
    };
    consumer.note_age(&incoming).await;
    let handler = match consumer.handler(&incoming) {
        Ok(handler) => handler,
        Err((reason, error)) => {
            let parked = new_parked(consumer, &raw, &incoming, ParkedStatus::Dead, reason, error, 0);
            return park(consumer, parked, given_up).await;
        }
    };
    let (mut runs, mut conflicts, mut losses) = (0_u32, 0_u32, 0_u32);
    let mut ended = None;
    loop {
        if !wait_for_database(consumer, given_up).await {
            return false;
        }
        let end = attempt::run(consumer, handler, &incoming, &raw.body, Origin::Delivery, runs + 1).await;
        let (kind, error) = match end {
            End::Committed => {
                consumer.record_effect(&incoming);
                return true;
            }
            End::Known(disposition) => {
                duplicate(consumer, &incoming, disposition);
                return true;
            }
            End::Reused => {
                let mut parked =
                    new_parked(consumer, &raw, &incoming, ParkedStatus::Dead, Reason::IdReused, String::new(), 0);
                for_a_person(&mut parked, Reason::IdReused, REUSED);
                return park(consumer, parked, given_up).await;
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
                return park(consumer, parked, given_up).await;
            }
            // Only a re-run can be abandoned.
            End::Abandoned | End::Interrupted => return false,
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
        return park(consumer, parked, given_up).await;
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

/// A message that cannot be handled, for a person.
pub(crate) fn park_rejected<DB: Store>(consumer: &Consumer<DB>, raw: &RawMessage, rejected: Rejected) -> NewParked {
    NewParked {
        consumer: consumer.plan.name.clone(),
        inbox: None,
        ended: None,
        event_id: rejected.event_id,
        event_type: rejected.event_type,
        body: raw.body.clone(),
        properties: properties(raw),
        status: ParkedStatus::Dead,
        reason: rejected.reason,
        error: Some(rejected.error),
        attempts: 0,
        isolated: false,
        enqueued_at: None,
    }
}

pub(crate) fn new_parked<DB: Store>(
    consumer: &Consumer<DB>,
    raw: &RawMessage,
    incoming: &Incoming,
    status: ParkedStatus,
    reason: Reason,
    error: String,
    attempts: u32,
) -> NewParked {
    NewParked {
        consumer: consumer.plan.name.clone(),
        inbox: Some(incoming.entry.clone()),
        ended: None,
        event_id: Some(incoming.entry.event_id.clone()),
        event_type: Some(incoming.metadata.event_type.clone()),
        body: raw.body.clone(),
        properties: properties(raw),
        status,
        reason,
        error: Some(error),
        attempts: i32::try_from(attempts).unwrap_or(i32::MAX),
        isolated: false,
        enqueued_at: incoming.entry.enqueued_at,
    }
}

const REUSED: &str = "an event with this id and another type or other fields was seen before";
const TOO_OLD: &str = "its dedup record may have been deleted: nobody can know whether it was handled";

/// Parks without a dedup record: the one that is there, if there is one, stays as it is.
fn for_a_person(parked: &mut NewParked, reason: Reason, error: &str) {
    parked.inbox = None;
    parked.status = ParkedStatus::Dead;
    parked.reason = reason;
    parked.error = Some(error.to_owned());
}

fn properties(raw: &RawMessage) -> String {
    serde_json::to_string(&raw.properties).unwrap_or_else(|_| "{}".to_owned())
}

/// Parks durably, however long the database takes to come back; `false` if the runtime or the subscription ends first.
pub(crate) async fn park<DB: Store>(
    consumer: &Consumer<DB>,
    mut parked: NewParked,
    given_up: &CancellationToken,
) -> bool {
    loop {
        if !wait_for_database(consumer, given_up).await {
            return false;
        }
        let written = async {
            let mut session = Session::acquire(&consumer.pool).await?;
            let written = within(consumer.statement, DB::park(session.connection()?, &parked)).await;
            let result = match (written, &parked.inbox) {
                (Ok(false), Some(entry)) => {
                    within(consumer.statement, DB::inbox_record(session.connection()?, entry)).await.map(Some)
                }
                (written, _) => written.map(|_| None),
            };
            session.finish(result)
        };
        match written.await {
            Ok(None) => {
                consumer.record_parked(&parked);
                return true;
            }
            // Somebody else decided on this event in between.
            Ok(Some(InboxRecord::Known(_))) => {
                metrics::counter!(names::DUPLICATES, "consumer" => consumer.plan.name.clone()).increment(1);
                return true;
            }
            // It is not that event, or nobody knows: it lives beside the record, for a person.
            Ok(Some(InboxRecord::Reused)) => for_a_person(&mut parked, Reason::IdReused, REUSED),
            Ok(Some(InboxRecord::TooOld)) => for_a_person(&mut parked, Reason::OlderThanWindow, TOO_OLD),
            Ok(Some(InboxRecord::Gone)) => {}
            Err(error) => {
                let mut losses = 0;
                if let Lost::HandlersFault(_) = consumer.lost(&error.to_string(), &mut losses).await {
                    return false;
                }
                // A database that answers and cannot park (a missing table, no permission) is out of order all the same.
                consumer.gate.close(&format!("a message cannot be parked: {error}"));
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
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

    pub(crate) fn record_parked(&self, parked: &NewParked) {
        let labels = [("consumer", self.plan.name.clone()), ("reason", parked.reason.as_str().to_owned())];
        match parked.status {
            ParkedStatus::Retrying { after } => {
                metrics::counter!(names::PARKED, &labels).increment(1);
                self.rerun_after(after);
            }
            ParkedStatus::Dead => {
                metrics::counter!(names::DEAD, &labels).increment(1);
                tracing::error!(
                    consumer = %self.plan.name, event_id = parked.event_id, event = parked.event_type,
                    reason = parked.reason.as_str(), error = parked.error, "a message is Dead; it waits in parked_messages"
                );
            }
        }
    }
}

//! Parking: what cannot be handled now, or at all, is written down before it leaves its queue (C2).

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::alert::Alert;
use crate::consumer::Consumer;
use crate::consumer::deliver::{Delivered, Lost, wait_for_database};
use crate::consumer::identify::{Incoming, Rejected, identify};
use crate::inbox::{InboxRecord, NewParked, ParkedStatus, Reason};
use crate::queue::QueueKey;
use crate::raw::RawMessage;
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::names;

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

pub(crate) const REUSED: &str = "an event with this id and another type or other fields was seen before";
pub(crate) const TOO_OLD: &str = "its dedup record may have been deleted: nobody can know whether it was handled";

/// Parks without a dedup record: the one that is there, if there is one, stays as it is.
pub(crate) fn for_a_person(parked: &mut NewParked, reason: Reason, error: &str) {
    parked.inbox = None;
    parked.status = ParkedStatus::Dead;
    parked.reason = reason;
    parked.error = Some(error.to_owned());
}

fn properties(raw: &RawMessage) -> String {
    serde_json::to_string(&raw.properties).unwrap_or_else(|_| "{}".to_owned())
}

/// What a dead letter becomes: one that can be handled gets runs of its own; the others wait for a person.
pub(crate) fn dead_letter<DB: Store>(consumer: &Consumer<DB>, raw: &RawMessage) -> NewParked {
    let error = "the broker delivered it as often as it may without getting an ack".to_owned();
    match identify(raw, &consumer.plan.name, consumer.max_body) {
        Ok(incoming) => {
            let (status, reason, error) = match consumer.handler(&incoming) {
                Ok(_) => (ParkedStatus::Retrying { after: Duration::ZERO }, Reason::DeliveryLimit, error),
                Err((reason, error)) => (ParkedStatus::Dead, reason, error),
            };
            NewParked { isolated: true, ..new_parked(consumer, raw, &incoming, status, reason, error, 0) }
        }
        Err(rejected) => NewParked { isolated: true, ..park_rejected(consumer, raw, rejected) },
    }
}

/// Parks durably, however long the database takes to come back; `Undecided` if the runtime or the subscription ends first. Out of a queue of the
/// database, the message leaves the queue in the same transaction.
pub(crate) async fn park<DB: Store>(
    consumer: &Consumer<DB>,
    mut parked: NewParked,
    from: Option<&QueueKey>,
    given_up: &CancellationToken,
) -> Delivered {
    loop {
        if !wait_for_database(consumer, given_up).await {
            return Delivered::Undecided;
        }
        let written = async {
            let mut session = Session::writer(&consumer.pool).await?;
            let result = write(consumer, session.connection()?, &parked, from).await;
            session.finish(result)
        };
        match written.await {
            Ok(Written::Parked) => {
                consumer.record_parked(&parked);
                return if from.is_some() { Delivered::Taken } else { Delivered::Decided };
            }
            Ok(Written::NotOurs) => return Delivered::Undecided,
            // Somebody else decided on this event in between.
            Ok(Written::Decided(InboxRecord::Known(_))) => {
                metrics::counter!(names::DUPLICATES, "consumer" => consumer.plan.name.clone()).increment(1);
                return Delivered::Decided;
            }
            // It is not that event, or nobody knows: it lives beside the record, for a person.
            Ok(Written::Decided(InboxRecord::Reused)) => for_a_person(&mut parked, Reason::IdReused, REUSED),
            Ok(Written::Decided(InboxRecord::TooOld)) => for_a_person(&mut parked, Reason::OlderThanWindow, TOO_OLD),
            Ok(Written::Decided(InboxRecord::Gone)) => {}
            Err(error) => {
                let mut losses = 0;
                if let Lost::HandlersFault(_) = consumer.lost(&error.to_string(), &mut losses).await {
                    return Delivered::Undecided;
                }
                // A database that answers and cannot park (a missing table, no permission) is out of order all the same.
                consumer.gate.close(&format!("a message cannot be parked: {error}"));
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// How one try to park ended.
enum Written {
    Parked,
    /// The event has a dedup record, or may have had one.
    Decided(InboxRecord),
    /// Somebody else has the message of the database queue.
    NotOurs,
}

async fn write<DB: Store>(
    consumer: &Consumer<DB>,
    connection: &mut DB::Connection,
    parked: &NewParked,
    from: Option<&QueueKey>,
) -> Result<Written, sqlx::Error> {
    let written = match from {
        None => within(consumer.statement, DB::park(&mut *connection, parked)).await?,
        Some(key) => {
            let mut tx = within(consumer.statement, DB::begin(&mut *connection)).await?;
            // A handler that committed by itself has taken the message out of its queue with that: it is ours without being there.
            let taken = match (parked.ended, &parked.inbox) {
                (Some(stamp), Some(entry)) => {
                    within(consumer.statement, DB::committed_by_handler(&mut tx, entry, stamp)).await?
                }
                _ => false,
            };
            let written = within(consumer.statement, DB::park(&mut tx, parked)).await?;
            if written && !taken && !within(consumer.statement, DB::ack_queue(&mut tx, key)).await? {
                within(consumer.statement, DB::rollback(tx)).await?;
                return Ok(Written::NotOurs);
            }
            within(consumer.statement, tx.commit()).await?;
            written
        }
    };
    match (written, &parked.inbox) {
        (false, Some(entry)) => {
            let record = within(consumer.statement, DB::inbox_record(connection, entry)).await?;
            Ok(Written::Decided(record))
        }
        _ => Ok(Written::Parked),
    }
}

impl<DB: Store> Consumer<DB> {
    pub(crate) fn record_parked(&self, parked: &NewParked) {
        let labels = [("consumer", self.plan.name.clone()), ("reason", parked.reason.as_str().to_owned())];
        match parked.status {
            ParkedStatus::Retrying { after } => {
                metrics::counter!(names::PARKED, &labels).increment(1);
                self.rerun_after(after);
            }
            ParkedStatus::Dead => {
                metrics::counter!(names::DEAD, &labels).increment(1);
                self.board.alerts().raise(|| Alert::MessageDead {
                    consumer: self.plan.name.clone(),
                    event_id: parked.event_id.clone(),
                    reason: parked.reason.as_str().to_owned(),
                    error: parked.error.clone(),
                });
                tracing::error!(
                    consumer = %self.plan.name, event_id = parked.event_id, event = parked.event_type,
                    reason = parked.reason.as_str(), error = parked.error, "a message is Dead; it waits in parked_messages"
                );
            }
        }
    }
}

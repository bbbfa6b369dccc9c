//! Taking the messages of one consumer out of its queue in the database: claims ahead, dispatches each to its own task, and renews the claims
//! that live. A message leaves the queue in the transaction that decides on it, fenced by its claim.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::broker::topology::DELIVERY_LIMIT;
use crate::consumer::Consumer;
use crate::consumer::deliver::{Delivered, conflict_pause, deliver};
use crate::consumer::identify::Rejected;
use crate::consumer::park::{dead_letter, park, park_rejected};
use crate::event::name;
use crate::inbox::Reason;
use crate::outbox::wake;
use crate::pace::Pace;
use crate::queue::{QueueClaim, QueueKey, QueueRow, message};
use crate::raw::RawMessage;
use crate::store::session::{Session, within};
use crate::store::{Condition, Store};
use crate::telemetry::{Repeated, names};
use crate::window::{Permit, Window};

/// How often a queue is looked at that should stay empty: the service moved on to another broker.
const DRAIN: Duration = Duration::from_secs(2);

/// A message that was claimed and not dispatched yet.
type Claimed = (QueueRow, Arc<str>, Permit);

/// What the loops over one queue share.
pub(super) struct QueueWork<DB: Store> {
    consumer: Arc<Consumer<DB>>,
    /// What is claimed and not decided on.
    window: Arc<Window>,
    /// The longest pause between two looks.
    poll: Duration,
    /// The name in `health()`.
    part: String,
}

impl<DB: Store> QueueWork<DB> {
    /// The queue is the consumer's own, or, when `draining`, one that it left for another broker.
    pub(super) fn new(consumer: &Arc<Consumer<DB>>, draining: bool) -> Arc<Self> {
        let name = &consumer.plan.name;
        Arc::new(Self {
            consumer: Arc::clone(consumer),
            window: Window::new(usize::from(consumer.plan.prefetch), usize::MAX),
            poll: if draining { DRAIN } else { consumer.poll },
            part: if draining { format!("database queue {name}") } else { format!("consumer {name}") },
        })
    }

    async fn claim(&self, claim_id: &str, limit: usize) -> Result<Vec<QueueRow>, sqlx::Error> {
        let claim = QueueClaim {
            queue: self.consumer.queue.clone(),
            claim_id: claim_id.to_owned(),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            lease: self.consumer.lease,
        };
        let mut session = Session::writer(&self.consumer.engine_pool).await?;
        let result = within(self.consumer.statement, DB::claim_queue(session.connection()?, &claim)).await;
        session.finish(result)
    }
}

/// Claims and dispatches. Runs on the engine's thread.
pub(super) async fn run<DB: Store>(work: Arc<QueueWork<DB>>) {
    let consumer = &work.consumer;
    let mut pace = Pace::new(&wake::ROUTED, work.poll);
    let mut trouble = Repeated::new();
    consumer.board.up(&work.part);
    metrics::gauge!(names::SUBSCRIBED, "consumer" => consumer.plan.name.clone()).set(1.0);
    tracing::info!(consumer = %consumer.plan.name, queue = %consumer.queue, "consuming from the database");
    let mut failures = 0;
    loop {
        let ready = async {
            consumer.gate.open().await;
            work.window.room(1, usize::from(consumer.plan.prefetch)).await
        };
        let (room, _) = tokio::select! {
            biased;
            () = consumer.stopping.cancelled() => break,
            room = ready => room,
        };
        let claim_id: Arc<str> = Arc::from(format!("{}:{}", consumer.instance, ulid::Ulid::new()));
        pace.scanning();
        match work.claim(&claim_id, room).await {
            Ok(rows) => {
                failures = 0;
                if trouble.clear().is_some() {
                    consumer.board.up(&work.part);
                }
                if rows.is_empty() {
                    if !pace.rest(&consumer.stopping).await {
                        break;
                    }
                    continue;
                }
                pace.found();
                metrics::counter!(names::RECEIVED, "consumer" => consumer.plan.name.clone())
                    .increment(rows.len() as u64);
                let claimed = rows.into_iter().map(|row| {
                    let permit = work.window.take(&claim_id, 1, row.payload.len());
                    (row, Arc::clone(&claim_id), permit)
                });
                dispatch(consumer, claimed.collect()).await;
            }
            Err(error) if DB::condition(&error) == Some(Condition::Conflict) => {
                failures += 1;
                tokio::time::sleep(conflict_pause(failures)).await;
            }
            Err(error) => {
                consumer.board.down(&work.part, error.to_string());
                if let Some(count) = trouble.note(&error.to_string()) {
                    tracing::warn!(consumer = %consumer.plan.name, %error, failures = count, "the queue cannot be read; trying again for ever");
                }
                consumer.gate.close(&error.to_string());
            }
        }
    }
    metrics::gauge!(names::SUBSCRIBED, "consumer" => consumer.plan.name.clone()).set(0.0);
}

/// Hands each message to a task of its own as places become free; a stop gives the rest back.
async fn dispatch<DB: Store>(consumer: &Arc<Consumer<DB>>, mut claimed: VecDeque<Claimed>) {
    while let Some((row, claim_id, held)) = claimed.pop_front() {
        let permit = tokio::select! {
            biased;
            () = consumer.stopping.cancelled() => None,
            permit = Arc::clone(&consumer.permits).acquire_owned() => permit.ok(),
        };
        let Some(permit) = permit else {
            claimed.push_front((row, claim_id, held));
            break;
        };
        spawn(consumer, row, claim_id, held, permit);
    }
    if !claimed.is_empty() {
        let keys: Vec<QueueKey> = claimed.iter().map(|(row, claim_id, _)| key(row, claim_id)).collect();
        put_back(consumer, &keys).await;
    }
}

fn key(row: &QueueRow, claim_id: &Arc<str>) -> QueueKey {
    QueueKey { message_id: row.message_id, claim_id: claim_id.as_ref().to_owned() }
}

fn spawn<DB: Store>(
    consumer: &Arc<Consumer<DB>>,
    row: QueueRow,
    claim_id: Arc<str>,
    held: Permit,
    permit: OwnedSemaphorePermit,
) {
    let task = Arc::clone(consumer);
    let work = async move {
        let in_flight = metrics::gauge!(names::IN_FLIGHT, "consumer" => task.plan.name.clone());
        in_flight.increment(1.0);
        handle(&task, row, &claim_id).await;
        in_flight.decrement(1.0);
        drop(permit);
        drop(held);
    };
    // On the service's own runtime: a handler that blocks its thread blocks no claim and no renewal.
    consumer.tasks.spawn_on(work, &consumer.handle);
}

async fn handle<DB: Store>(consumer: &Consumer<DB>, row: QueueRow, claim_id: &Arc<str>) {
    let key = key(&row, claim_id);
    // The last net, as RabbitMQ's delivery limit: a message that takes the process with it comes to an end (C3, C7).
    let spent = i64::from(row.deliveries) > DELIVERY_LIMIT;
    let defect = row.defect.clone();
    let raw = message(row);
    // The runtime's end ends the wait for a lost database; leases do not bind anybody meanwhile.
    let never = CancellationToken::new();
    let delivered = if let Some(error) = defect {
        park(consumer, park_rejected(consumer, &raw, spoilt(&raw, error)), Some(&key), &never).await
    } else if spent {
        park(consumer, dead_letter(consumer, &raw), Some(&key), &never).await
    } else {
        deliver(consumer, raw, Some(&key), &never).await
    };
    match delivered {
        Delivered::Taken => {}
        Delivered::Decided => ack(consumer, &key).await,
        Delivered::Undecided => put_back(consumer, std::slice::from_ref(&key)).await,
    }
}

/// A row that the relay did not write like this: for a person, as it is.
fn spoilt(raw: &RawMessage, error: String) -> Rejected {
    let properties = &raw.properties;
    Rejected {
        reason: Reason::Undecodable,
        error,
        event_id: properties.message_id.clone().filter(|id| name::event_id(id).is_ok()),
        event_type: properties.kind.clone().filter(|kind| name::short_string(kind).is_ok()),
    }
}

/// Takes a message out whose event was decided on before. If that fails, it is delivered again, to the same end.
async fn ack<DB: Store>(consumer: &Consumer<DB>, key: &QueueKey) {
    let acked = async {
        let mut session = Session::writer(&consumer.pool).await?;
        let result = within(consumer.statement, DB::ack_queue(session.connection()?, key)).await;
        session.finish(result)
    };
    if !acked.await.unwrap_or(false) {
        metrics::counter!(names::ACK_LOST, "consumer" => consumer.plan.name.clone()).increment(1);
    }
}

/// Gives messages back, no delivery spent. If that fails, their leases run out.
async fn put_back<DB: Store>(consumer: &Consumer<DB>, keys: &[QueueKey]) {
    let given = async {
        let mut session = Session::writer(&consumer.pool).await?;
        let result = within(consumer.statement, DB::put_back_queue(session.connection()?, keys)).await;
        session.finish(result)
    };
    if let Err(error) = given.await {
        tracing::debug!(consumer = %consumer.plan.name, %error, "messages could not be put back; their leases will run out");
    }
}

/// Renews the claims that live, three times in their length. Goes on while handlers finish. Runs on the engine's thread.
pub(super) async fn renew<DB: Store>(work: Arc<QueueWork<DB>>) {
    let consumer = &work.consumer;
    let mut tick = interval(consumer.lease / 3);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut trouble = Repeated::new();
    let ended = async {
        consumer.stopping.cancelled().await;
        while work.window.in_flight() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::pin!(ended);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = &mut ended => return,
        }
        let claims = work.window.claims();
        if claims.is_empty() {
            continue;
        }
        let renewed = async {
            let mut session = Session::writer(&consumer.engine_pool).await?;
            let statement = DB::renew_queue(session.connection()?, &claims, consumer.lease);
            let result = within(consumer.statement, statement).await;
            session.finish(result)
        };
        match renewed.await {
            Ok(_) => drop(trouble.clear()),
            Err(error) => {
                if let Some(count) = trouble.note(&error.to_string()) {
                    tracing::warn!(consumer = %consumer.plan.name, %error, failures = count, "leases of messages could not be renewed");
                }
            }
        }
    }
}

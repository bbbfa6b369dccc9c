//! The consumer: one queue, one handler for each event, one transaction for each delivery.

mod attempt;
mod dead_letters;
mod decide;
mod deliver;
pub(crate) mod figures;
pub(crate) mod gate;
mod identify;
pub(crate) mod plan;
pub(crate) mod raw;
mod rerun;
mod retention;
mod subscribe;

use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::broker::rabbitmq::connection::Link;
use crate::consumer::gate::Gate;
use crate::consumer::identify::Incoming;
use crate::consumer::plan::{ConsumerPlan, HandlerPlan};
use crate::handler::StateMap;
use crate::inbox::Reason;
use crate::runtime::health::Board;
use crate::runtime::supervise::supervise;
use crate::store::Store;

/// What all consumers of a runtime share.
pub(crate) struct Shared<DB: Store> {
    pub(crate) instance: String,
    pub(crate) pool: Pool<DB>,
    pub(crate) states: Arc<StateMap>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) board: Arc<Board>,
    /// The service's own runtime, where handlers run.
    pub(crate) handle: Handle,
    /// Handlers in flight.
    pub(crate) tasks: TaskTracker,
    pub(crate) max_body: usize,
    /// How long one statement of the engine may take.
    pub(crate) statement: Duration,
    pub(crate) dedup_window: Duration,
    /// No more deliveries; handlers may finish.
    pub(crate) stopping: CancellationToken,
    /// Handlers are dropped.
    pub(crate) abort: CancellationToken,
}

/// One consumer at work.
pub(crate) struct Consumer<DB: Store> {
    shared: Arc<Shared<DB>>,
    pub(crate) plan: ConsumerPlan,
    /// With namespace.
    pub(crate) queue: String,
    pub(crate) permits: Arc<Semaphore>,
    window: Mutex<retention::Seen>,
    rerun_at: watch::Sender<Option<Instant>>,
}

impl<DB: Store> std::ops::Deref for Consumer<DB> {
    type Target = Shared<DB>;
    fn deref(&self) -> &Shared<DB> {
        &self.shared
    }
}

impl<DB: Store> Consumer<DB> {
    pub(crate) fn new(shared: Arc<Shared<DB>>, plan: ConsumerPlan, queue: String) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(usize::from(plan.concurrency)));
        Arc::new(Self { shared, plan, queue, permits, window: Mutex::default(), rerun_at: watch::Sender::new(None) })
    }

    /// Starts its loops: broker I/O on the current runtime (the engine's), database work on the service's.
    pub(crate) fn start(self: &Arc<Self>, link: &Arc<Link>, loops: &TaskTracker) {
        let name = &self.plan.name;
        let (consumer, to) = (Arc::clone(self), Arc::clone(link));
        let subscription =
            supervise(format!("consumer {name}"), Arc::clone(&self.board), self.stopping.clone(), move || {
                subscribe::run(Arc::clone(&consumer), Arc::clone(&to))
            });
        loops.spawn(subscription);
        let (consumer, to) = (Arc::clone(self), Arc::clone(link));
        let drain =
            supervise(format!("dead letters {name}"), Arc::clone(&self.board), self.stopping.clone(), move || {
                dead_letters::run(Arc::clone(&consumer), Arc::clone(&to))
            });
        loops.spawn(drain);
        let consumer = Arc::clone(self);
        let rerun = supervise(format!("reruns {name}"), Arc::clone(&self.board), self.stopping.clone(), move || {
            rerun::run(Arc::clone(&consumer))
        });
        loops.spawn_on(rerun, &self.handle);
        let (consumer, to) = (Arc::clone(self), Arc::clone(link));
        let retention =
            supervise(format!("retention {name}"), Arc::clone(&self.board), self.stopping.clone(), move || {
                retention::run(Arc::clone(&consumer), Arc::clone(&to))
            });
        loops.spawn_on(retention, &self.handle);
    }

    /// The handler of an event, or why there is none.
    pub(crate) fn handler(&self, incoming: &Incoming) -> Result<&HandlerPlan, (Reason, String)> {
        let event = incoming.metadata.event_type.as_str();
        let Some(handler) = self.plan.handlers.get(event) else {
            return Err((
                Reason::UnknownEvent,
                format!("consumer {:?} has no handler for {}", self.plan.name, crate::error::shown(event)),
            ));
        };
        let known = handler.descriptor.event.version;
        if incoming.metadata.version > known {
            return Err((
                Reason::UnknownVersion,
                format!("it has version {}, this build knows up to {known}", incoming.metadata.version),
            ));
        }
        Ok(handler)
    }

    /// The consumer tag: unique at the broker, readable for an operator.
    pub(crate) fn tag(&self) -> String {
        let mut tag = format!("{}@{}", self.plan.name, self.instance);
        tag.truncate(200);
        tag
    }

    /// Waits until no handler of this runtime is in flight, or until handlers are dropped.
    async fn drained(&self) {
        let idle = async {
            while self.permits.available_permits() < usize::from(self.plan.concurrency) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            () = idle => {}
            () = self.abort.cancelled() => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }

    /// A parked message of this consumer will be due then.
    pub(crate) fn rerun_after(&self, after: Duration) {
        let at = Instant::now() + after;
        self.rerun_at.send_if_modified(|known| {
            let sooner = known.is_none_or(|known| at < known);
            if sooner {
                *known = Some(at);
            }
            sooner
        });
    }

    /// Waits for the next time that a parked message may be due, at most `longest`.
    async fn next_rerun(&self, longest: Duration) {
        let deadline = Instant::now() + longest;
        let mut known = self.rerun_at.subscribe();
        loop {
            let at = known.borrow_and_update().map_or(deadline, |at| at.min(deadline));
            tokio::select! {
                () = tokio::time::sleep_until(at) => break,
                changed = known.changed() => if changed.is_err() { break },
            }
        }
        self.rerun_at.send_if_modified(|known| {
            if known.is_some_and(|at| at <= Instant::now()) {
                *known = None;
            }
            false
        });
    }
}

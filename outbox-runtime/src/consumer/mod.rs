//! The consumer: one queue, one handler for each event, one transaction for each delivery.

mod attempt;
#[cfg(feature = "rabbitmq")]
mod dead_letters;
mod decide;
mod deliver;
mod end;
pub(crate) mod figures;
pub(crate) mod gate;
mod identify;
mod park;
pub(crate) mod plan;
mod queue;
mod rerun;
mod retention;
#[cfg(feature = "rabbitmq")]
mod subscribe;

use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::broker::Transport;
use crate::consumer::gate::Gate;
use crate::consumer::identify::Incoming;
use crate::consumer::plan::{ConsumerPlan, HandlerPlan};
use crate::handler::StateMap;
use crate::inbox::Reason;
use crate::runtime::health::Board;
use crate::runtime::supervise::supervise;
use crate::store::Store;
use crate::store::session::{Session, within};

/// What all consumers of a runtime share.
pub(crate) struct Shared<DB: Store> {
    pub(crate) instance: String,
    /// Where handlers run, and what they leave behind is written.
    pub(crate) pool: Pool<DB>,
    /// How many runs the pool has room for: whoever waits for a connection of it is not told after a time that there is none.
    pub(crate) room: Semaphore,
    /// What must not wait for handlers: claims and renewals.
    pub(crate) engine_pool: Pool<DB>,
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
    /// How long a claim of a message of the database holds without renewal.
    pub(crate) lease: Duration,
    /// The longest pause between two looks at a queue of the database.
    pub(crate) poll: Duration,
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

    /// Starts its loops: broker I/O and claims on the current runtime (the engine's), database work on the service's. `draining`: messages may be
    /// left in a queue of the database, from before RabbitMQ.
    pub(crate) fn start(self: &Arc<Self>, transport: &Transport, draining: bool, loops: &TaskTracker) {
        let name = &self.plan.name;
        match transport {
            #[cfg(feature = "rabbitmq")]
            Transport::RabbitMq(link) => {
                let (consumer, to) = (Arc::clone(self), Arc::clone(link));
                loops.spawn(self.supervised(format!("consumer {name}"), move || {
                    subscribe::run(Arc::clone(&consumer), Arc::clone(&to))
                }));
                let (consumer, to) = (Arc::clone(self), Arc::clone(link));
                loops.spawn(self.supervised(format!("dead letters {name}"), move || {
                    dead_letters::run(Arc::clone(&consumer), Arc::clone(&to))
                }));
                if draining {
                    self.start_queue("database queue", true, loops);
                }
            }
            Transport::Database => self.start_queue("consumer", draining, loops),
        }
        let consumer = Arc::clone(self);
        let rerun = self.supervised(format!("reruns {name}"), move || rerun::run(Arc::clone(&consumer)));
        loops.spawn_on(rerun, &self.handle);
        let (consumer, from) = (Arc::clone(self), transport.clone());
        let retention =
            self.supervised(format!("retention {name}"), move || retention::run(Arc::clone(&consumer), from.clone()));
        loops.spawn_on(retention, &self.handle);
    }

    fn start_queue(self: &Arc<Self>, loop_name: &str, draining: bool, loops: &TaskTracker) {
        let name = &self.plan.name;
        let work = queue::QueueWork::new(self, draining);
        let of = Arc::clone(&work);
        loops.spawn(self.supervised(format!("{loop_name} {name}"), move || queue::run(Arc::clone(&of))));
        loops.spawn(self.supervised(format!("renew {loop_name} {name}"), move || queue::renew(Arc::clone(&work))));
    }

    fn supervised<F, Fut>(&self, name: String, make: F) -> impl Future<Output = ()> + Send + 'static + use<DB, F, Fut>
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        supervise(name, Arc::clone(&self.board), self.stopping.clone(), make)
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

    /// How many messages wait in its queue; `None` if nobody can say.
    pub(crate) async fn waiting(&self, transport: &Transport) -> Option<u64> {
        match transport {
            #[cfg(feature = "rabbitmq")]
            Transport::RabbitMq(link) => {
                let (_, connection) = link.connection().ok()?;
                crate::broker::rabbitmq::declare::depth(&connection, &self.queue).await.ok().map(u64::from)
            }
            Transport::Database => self.waiting_in_database().await,
        }
    }

    /// How many messages wait in its queue of the database.
    pub(crate) async fn waiting_in_database(&self) -> Option<u64> {
        let counted = async {
            let mut session = Session::reader(&self.pool).await?;
            let result = within(self.statement, DB::queue_depth(session.connection()?, &self.queue)).await;
            session.finish(result)
        };
        counted.await.ok()
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

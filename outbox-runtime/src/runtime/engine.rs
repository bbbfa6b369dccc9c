//! The engine of one runtime: its own thread for broker and relay, the service's runtime for handlers, and the order in which they stop.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::Pool;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::broker::rabbitmq::connection::{Link, LinkPlan};
use crate::broker::rabbitmq::declare::{declare, depth};
use crate::broker::topology::{Topology, qualified};
use crate::consumer::gate::Gate;
use crate::consumer::{Consumer, Shared};
use crate::error::{Error, Result, StartError, StartProblem};
use crate::handler::BoxFuture;
use crate::relay::Relay;
use crate::runtime::health::Board;
use crate::runtime::prepare::{Prepare, Unprepared};
use crate::runtime::setup::{Setup, relay_config, topology};
use crate::runtime::supervise::supervise;
use crate::runtime::{Health, explain};
use crate::store::Store;
use crate::store::session::{Session, within};

/// How long one statement of the engine may take.
pub(super) const STATEMENT: Duration = Duration::from_secs(30);

/// A running engine, erased: relay and consumer are generic over the database, the runtime is not.
pub(super) trait Engine: Send + Sync {
    fn health(&self) -> Health;
    fn quiet(&self) -> BoxFuture<'_, bool>;
    fn stopping(&self) -> BoxFuture<'_, ()>;
    fn shutdown(&self) -> BoxFuture<'_, ()>;
    /// Ends everything at once, from a destructor.
    fn abandon(&self);
}

pub(super) struct Running<DB: Store> {
    board: Arc<Board>,
    pool: Pool<DB>,
    own_pool: bool,
    relay_pool: Pool<DB>,
    relay: Option<Arc<Relay<DB>>>,
    consumers: Vec<Arc<Consumer<DB>>>,
    links: Vec<Arc<Link>>,
    stopping: CancellationToken,
    abort: CancellationToken,
    /// The last to go: connections and the database prober.
    ending: CancellationToken,
    loops: TaskTracker,
    tasks: TaskTracker,
    connections: TaskTracker,
    shutdown_timeout: Duration,
    thread: Mutex<Option<tokio::runtime::Runtime>>,
    ended: CancellationToken,
}

impl<DB: Store> Running<DB> {
    pub(super) async fn start(setup: Setup<DB>) -> Result<Arc<Self>> {
        let builder = &setup.builder;
        let thread = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("outbox-engine")
            .enable_all()
            .build()
            .map_err(|error| Error::forced(format!("the engine's thread cannot be started: {error}")))?;
        let board = Arc::new(Board::default());
        let (stopping, abort, ending) = (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
        let topology = Arc::new(topology(&setup));
        let link = |role: &'static str| {
            setup.uri.clone().map(|uri| {
                Link::new(LinkPlan {
                    role,
                    instance: setup.instance.clone(),
                    uri,
                    ca: builder.broker_ca.clone(),
                    topology: Arc::clone(&topology),
                    declare: builder.declare,
                })
            })
        };
        let publisher = link("publisher").filter(|_| builder.role.relays());
        let consumer_link = link("consumer").filter(|_| builder.role.consumes() && !setup.plans.is_empty());
        let tasks = TaskTracker::new();
        let shared = Arc::new(Shared {
            instance: setup.instance.clone(),
            pool: setup.pool.clone(),
            states: Arc::new(builder.states.clone()),
            gate: Gate::new(Arc::clone(&board)),
            board: Arc::clone(&board),
            handle: Handle::current(),
            tasks: tasks.clone(),
            max_body: crate::event::draft::MAX_BODY_BYTES,
            statement: STATEMENT,
            dedup_window: builder.dedup_window,
            stopping: stopping.clone(),
            abort: abort.clone(),
        });
        let relay = publisher.as_ref().map(|link| {
            Relay::new(
                relay_config(builder, &setup.instance),
                setup.relay_pool.clone(),
                Arc::clone(link),
                Arc::clone(&board),
                stopping.clone(),
            )
        });
        let consumers: Vec<_> = match &consumer_link {
            Some(_) => setup
                .plans
                .iter()
                .map(|plan| {
                    let queue = qualified(builder.namespace.as_deref(), &plan.queue);
                    Consumer::new(Arc::clone(&shared), plan.clone(), queue)
                })
                .collect(),
            None => Vec::new(),
        };
        let running = Arc::new(Self {
            board,
            pool: setup.pool.clone(),
            own_pool: setup.own_pool,
            relay_pool: setup.relay_pool.clone(),
            relay,
            consumers,
            links: publisher.iter().chain(&consumer_link).cloned().collect(),
            stopping,
            abort,
            ending,
            loops: TaskTracker::new(),
            tasks,
            connections: TaskTracker::new(),
            shutdown_timeout: builder.shutdown_timeout,
            thread: Mutex::new(None),
            ended: CancellationToken::new(),
        });
        let prepare = Prepare {
            pool: setup.pool,
            migrations: builder.migrations,
            broker_kind: setup.broker_kind,
            shown: setup.shown,
        };
        let engine = thread.handle().clone();
        *running.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        let begun = running.begin(&engine, prepare, shared, &topology, builder.fail_fast, builder.declare).await;
        if let Err(error) = begun {
            running.abandon();
            return Err(error.into());
        }
        Ok(running)
    }

    /// Looks at the database and the broker once; what is not there yet is waited for in the background unless `fail_fast`.
    async fn begin(
        self: &Arc<Self>,
        engine: &Handle,
        prepare: Prepare<DB>,
        shared: Arc<Shared<DB>>,
        topology: &Arc<Topology>,
        fail_fast: bool,
        mode: crate::broker::Declare,
    ) -> Result<(), StartError> {
        let mut problems = Vec::new();
        let prepared = match prepare.once().await {
            Ok(()) => {
                self.board.up("database");
                true
            }
            Err(Unprepared::Never(problem)) => return Err(StartError::new(vec![problem])),
            Err(Unprepared::NotYet(problem)) => {
                self.board.down("database", problem.problem.clone());
                if !fail_fast {
                    tracing::warn!(setting = %problem.subject, problem = %problem.problem, cure = %problem.cure, "the database cannot be used yet; trying again for ever");
                }
                problems.push(problem);
                false
            }
        };
        if fail_fast {
            if let Some(link) = self.links.first().cloned() {
                let topology = Arc::clone(topology);
                let looked = engine.spawn(async move { broker_once(&link, &topology, mode).await });
                problems.extend(looked.await.unwrap_or_default());
            }
            if !problems.is_empty() {
                return Err(StartError::new(problems));
            }
        }
        for link in &self.links {
            self.connections.spawn_on(Arc::clone(link).supervise(self.ending.clone()), engine);
            self.watch(link, engine);
        }
        if !self.consumers.is_empty() {
            let probe = Arc::clone(&shared.gate).probe(self.pool.clone(), self.ending.clone());
            self.connections.spawn(probe);
            let (board, stopping) = (Arc::clone(&self.board), self.stopping.clone());
            let figures = move || crate::consumer::figures::run(Arc::clone(&shared));
            self.loops.spawn(supervise("parked figures".to_owned(), board, stopping, figures));
        }
        let running = Arc::clone(self);
        let go = async move {
            if !prepared && !prepare.until_it_works(&running.board, &running.stopping).await {
                return;
            }
            if let Some(relay) = &running.relay {
                relay.start(&running.loops);
            }
            for (consumer, link) in running.consumers.iter().zip(std::iter::repeat(running.links.last())) {
                if let Some(link) = link {
                    consumer.start(link, &running.loops);
                }
            }
        };
        // Relay and consumers start on the engine's thread: broker I/O belongs there.
        if prepared {
            let _ = engine.spawn(go).await;
        } else {
            self.loops.spawn_on(go, engine);
        }
        Ok(())
    }

    /// Mirrors a connection's state into `health()`.
    fn watch(&self, link: &Arc<Link>, engine: &Handle) {
        let (mut state, board, ending) = (link.state(), Arc::clone(&self.board), self.ending.clone());
        let part = format!("broker {}", link.role());
        let link = Arc::clone(link);
        let mirror = async move {
            loop {
                {
                    let now = state.borrow_and_update().clone();
                    match now {
                        crate::broker::rabbitmq::connection::LinkState::Down(error) => {
                            board.down(&part, error.unwrap_or_else(|| "not connected yet".to_owned()));
                        }
                        crate::broker::rabbitmq::connection::LinkState::Blocked(_, reason) => {
                            board.down(&part, format!("blocked by the broker: {reason}"));
                        }
                        crate::broker::rabbitmq::connection::LinkState::Up(_) => match link.problems().first() {
                            Some(problem) => board.down(&part, problem.to_string()),
                            None => board.up(&part),
                        },
                    }
                }
                tokio::select! {
                    changed = state.changed() => if changed.is_err() { return },
                    () = ending.cancelled() => return,
                }
            }
        };
        self.connections.spawn_on(mirror, engine);
    }

    async fn shut_down(&self) {
        self.stopping.cancel();
        self.loops.close();
        self.tasks.close();
        let drained = async {
            self.tasks.wait().await;
            self.loops.wait().await;
        };
        if tokio::time::timeout(self.shutdown_timeout, drained).await.is_err() {
            tracing::warn!(handlers = self.tasks.len(), "the shutdown timeout passed; dropping what still runs");
            self.abort.cancel();
            let _ = tokio::time::timeout(Duration::from_secs(2), self.tasks.wait()).await;
            if let Some(relay) = &self.relay {
                relay.release().await;
            }
        }
        self.ending.cancel();
        self.connections.close();
        let _ = tokio::time::timeout(Duration::from_secs(3), self.connections.wait()).await;
        let _ = tokio::time::timeout(Duration::from_secs(2), self.relay_pool.close()).await;
        if self.own_pool {
            let _ = tokio::time::timeout(Duration::from_secs(2), self.pool.close()).await;
        }
        self.abandon();
        self.ended.cancel();
        tracing::info!("outbox stopped");
    }
}

impl<DB: Store> Engine for Running<DB> {
    fn health(&self) -> Health {
        self.board.health()
    }

    fn quiet(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let database = async {
                let mut session = Session::acquire(&self.pool).await?;
                let looked = async {
                    let connection = session.connection()?;
                    let outbox = DB::outbox_stats(&mut *connection).await?;
                    let parked = DB::parked_stats(&mut *connection).await?;
                    Ok::<_, sqlx::Error>(outbox.pending == 0 && outbox.processing == 0 && parked.retrying == 0)
                };
                let result = looked.await;
                session.finish(result)
            };
            if !within(STATEMENT, database).await.unwrap_or(false) {
                return false;
            }
            if self.relay.as_ref().is_some_and(|relay| relay.window.in_flight() > 0) || !self.tasks.is_empty() {
                return false;
            }
            for consumer in &self.consumers {
                let Some(link) = self.links.last() else { return false };
                let (engine, link, queue) = (self.engine(), Arc::clone(link), consumer.queue.clone());
                let Some(engine) = engine else { return true };
                let depth = engine.spawn(async move {
                    let (_, connection) = link.connection().ok()?;
                    depth(&connection, &queue).await.ok()
                });
                if depth.await.ok().flatten() != Some(0) {
                    return false;
                }
            }
            true
        })
    }

    fn stopping(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stopping.cancelled())
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.stopping.is_cancelled() {
                // Somebody else does it, or the caller was dropped half-way; the thread tells which.
                tokio::select! {
                    () = self.ended.cancelled() => {}
                    () = tokio::time::sleep(self.shutdown_timeout + Duration::from_secs(10)) => self.abandon(),
                }
                return;
            }
            self.shut_down().await;
        })
    }

    fn abandon(&self) {
        self.stopping.cancel();
        self.abort.cancel();
        self.ending.cancel();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            thread.shutdown_background();
        }
    }
}

impl<DB: Store> Running<DB> {
    fn engine(&self) -> Option<Handle> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|thread| thread.handle().clone())
    }
}

/// One try to connect and declare, for `fail_fast`.
async fn broker_once(link: &Link, topology: &Topology, mode: crate::broker::Declare) -> Vec<StartProblem> {
    let connection = match link.connect().await {
        Ok(connection) => connection,
        Err(error) => return vec![explain::broker(&link.shown(), &error)],
    };
    let problems = match declare(&connection, topology, mode).await {
        Ok(problems) => problems.into_iter().map(|p| StartProblem::new(p.entity, p.problem, p.cure)).collect(),
        Err(error) => vec![explain::broker(&link.shown(), &error)],
    };
    let closed = connection.close(200, lapin::types::ShortString::from("checked"));
    let _ = tokio::time::timeout(Duration::from_secs(2), closed).await;
    problems
}

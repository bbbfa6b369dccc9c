//! The engine of one runtime: its own thread for broker and relay, the service's runtime for handlers, and the order in which they stop.

mod idle;
mod stop;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::Pool;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alert::{self, Alerts};
use crate::broker::topology::{Topology, qualified};
use crate::broker::{Declare, Transport};
use crate::consumer::gate::Gate;
use crate::consumer::{Consumer, Shared};
use crate::error::{Error, Result, StartError, StartProblem};
use crate::handler::BoxFuture;
use crate::outbox::{Ear, Heard, ListenFrom};
use crate::relay::Relay;
use crate::runtime::health::Board;
use crate::runtime::listen::{self, Listening};
use crate::runtime::prepare::{Prepare, Unprepared};
use crate::runtime::setup::{Setup, archive, relay_config, topology};
use crate::runtime::supervise::supervise;
use crate::runtime::{Health, bindings, vacuum};
use crate::store::session::{Session, within};
use crate::store::{Ownership, Store};

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
    /// Unless there is nothing to listen for.
    listening: Option<Arc<Listening<DB>>>,
    consumers: Vec<Arc<Consumer<DB>>>,
    /// Where the consumers' messages come from, unless the role has none.
    source: Option<Transport>,
    /// Consumers whose queue in the database may still hold messages from before RabbitMQ.
    draining: Mutex<Vec<Arc<Consumer<DB>>>>,
    #[cfg(feature = "rabbitmq")]
    links: crate::runtime::links::Links,
    /// Kept for as long as anything runs.
    ownership: Mutex<Option<Ownership>>,
    topology: Arc<Topology>,
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
        let (alerts, alert_worker) = match builder.alert_hook.clone().map(alert::queue) {
            Some((alerts, worker)) => (alerts, Some(worker)),
            None => (Alerts::default(), None),
        };
        let board = Arc::new(Board::new(alerts));
        let (stopping, abort, ending) = (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
        let topology = Arc::new(topology(&setup));
        #[cfg(feature = "rabbitmq")]
        let links = crate::runtime::links::Links::new(&setup, &topology, board.alerts());
        let (sink, source) = match &builder.broker {
            Some(crate::Broker::Database) => (Some(Transport::Database), Some(Transport::Database)),
            #[cfg(feature = "rabbitmq")]
            Some(crate::Broker::RabbitMq(_)) => {
                (links.publisher.clone().map(Transport::RabbitMq), links.consumer.clone().map(Transport::RabbitMq))
            }
            _ => (None, None),
        };
        let sink = sink.filter(|_| builder.role.relays());
        let source = source.filter(|_| builder.role.consumes() && !setup.plans.is_empty());
        let mut wants = Vec::new();
        wants.extend(sink.is_some().then_some(Heard::Enqueued));
        wants.extend(matches!(source, Some(Transport::Database)).then_some(Heard::Routed));
        let ear = Arc::new(Ear::new(wants));
        let tasks = TaskTracker::new();
        let shared = Arc::new(Shared {
            instance: setup.instance.clone(),
            pool: setup.pool.clone(),
            engine_pool: setup.relay_pool.clone(),
            room: Semaphore::new(setup.room.map_or(Semaphore::MAX_PERMITS, |room| room as usize)),
            states: Arc::new(builder.states.clone()),
            gate: Gate::new(Arc::clone(&board)),
            board: Arc::clone(&board),
            handle: Handle::current(),
            tasks: tasks.clone(),
            max_body: crate::event::draft::MAX_BODY_BYTES,
            statement: STATEMENT,
            dedup_window: builder.dedup_window,
            lease: builder.lease,
            poll: builder.poll_interval,
            stopping: stopping.clone(),
            abort: abort.clone(),
        });
        let relay = sink.map(|transport| {
            Relay::new(
                relay_config(builder, &setup.instance),
                setup.relay_pool.clone(),
                transport,
                Arc::clone(&board),
                Arc::clone(&ear),
                stopping.clone(),
            )
        });
        let listening = (DB::NOTIFIES && !ear.wants().is_empty()).then(|| {
            let options = setup.listen.unwrap_or_else(|| (*setup.pool.connect_options()).clone());
            Arc::new(Listening {
                from: ListenFrom { pool: setup.relay_pool.clone(), options },
                ear,
                board: Arc::clone(&board),
                poll: builder.poll_interval,
                stop: stopping.clone(),
            })
        });
        let consumers: Vec<_> = match &source {
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
            listening,
            consumers,
            source,
            draining: Mutex::default(),
            #[cfg(feature = "rabbitmq")]
            links,
            ownership: Mutex::default(),
            topology,
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
        if let Some(worker) = alert_worker {
            // On the service's own runtime, until everything else has ended.
            let (board, ending) = (Arc::clone(&running.board), running.ending.clone());
            let make = move || Arc::clone(&worker).run(ending.clone());
            running.connections.spawn(supervise("alerts".to_owned(), board, running.ending.clone(), make));
        }
        let prepare = Prepare {
            pool: setup.pool,
            migrations: builder.migrations,
            broker_kind: setup.broker_kind,
            moved_from: builder.moved_from.as_ref().map(crate::Broker::kind),
            owns: builder.role.relays() || builder.role.consumes(),
            archive: archive(&builder.retention).filter(|_| builder.role.relays()),
            own_sessions: setup.own_sessions,
            shown: setup.shown,
        };
        let engine = thread.handle().clone();
        *running.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        let begun = running.begin(&engine, prepare, shared, builder.fail_fast, builder.declare).await;
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
        fail_fast: bool,
        mode: Declare,
    ) -> Result<(), StartError> {
        // Not ready before each consumer has begun: what is not on the board counts for nothing.
        for consumer in &self.consumers {
            self.board.down(&format!("consumer {}", consumer.plan.name), "not consuming yet");
        }
        let mut problems = Vec::new();
        let prepared = match prepare.once().await {
            Ok(ownership) => {
                self.board.up("database");
                self.keep(ownership);
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
            #[cfg(feature = "rabbitmq")]
            problems.extend(self.links.look(engine, &self.topology, mode).await);
            if matches!(self.source, Some(Transport::Database)) && prepared {
                let declared = bindings::declare(&self.pool, &self.topology, mode).await.unwrap_or_default();
                problems.extend(declared.into_iter().map(|p| StartProblem::new(p.entity, p.problem, p.cure)));
            }
            if !problems.is_empty() {
                return Err(StartError::new(problems));
            }
        }
        #[cfg(feature = "rabbitmq")]
        self.links.start(engine, &self.board, &self.ending, &self.connections);
        if !self.consumers.is_empty() {
            let probe = Arc::clone(&shared.gate).probe(self.pool.clone(), self.ending.clone());
            self.connections.spawn(probe);
            let (board, stopping) = (Arc::clone(&self.board), self.stopping.clone());
            let figures = move || crate::consumer::figures::run(Arc::clone(&shared));
            self.loops.spawn(supervise("parked figures".to_owned(), board, stopping, figures));
        }
        let running = Arc::clone(self);
        let go = async move {
            if !prepared {
                let Some(ownership) = prepare.until_it_works(&running.board, &running.stopping).await else { return };
                running.keep(ownership);
            }
            running.go(mode).await;
        };
        // Relay and consumers start on the engine's thread: broker I/O belongs there.
        if prepared {
            let _ = engine.spawn(go).await;
        } else {
            self.loops.spawn_on(go, engine);
        }
        Ok(())
    }

    /// Starts relay and consumers, on the engine's thread.
    async fn go(self: &Arc<Self>, mode: Declare) {
        if matches!(self.source, Some(Transport::Database)) {
            bindings::until_declared(&self.pool, &self.topology, mode, &self.board, &self.stopping).await;
        }
        if let Some(relay) = &self.relay {
            relay.start(&self.loops);
            let (pool, stop) = (self.relay_pool.clone(), self.stopping.clone());
            let measure = move || vacuum::run(pool.clone(), stop.clone());
            self.loops.spawn(supervise(
                "relay vacuum figures".to_owned(),
                Arc::clone(&self.board),
                self.stopping.clone(),
                measure,
            ));
        }
        if let Some(listening) = &self.listening {
            let (board, stopping, listening) = (Arc::clone(&self.board), self.stopping.clone(), Arc::clone(listening));
            let listen = move || listen::run(Arc::clone(&listening));
            self.loops.spawn(supervise("listen".to_owned(), board, stopping, listen));
        }
        let Some(source) = &self.source else { return };
        for consumer in &self.consumers {
            let draining = !matches!(source, Transport::Database) && self.left_behind(consumer).await;
            if draining {
                self.draining.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(consumer));
            }
            consumer.start(source, draining, &self.loops);
        }
    }

    /// Whether the consumer ever had a queue in the database: then an instance of before the move may still fill it. In doubt it is looked at.
    async fn left_behind(&self, consumer: &Consumer<DB>) -> bool {
        let known = async {
            let mut session = Session::reader(&self.pool).await?;
            let result = within(STATEMENT, DB::queue_known(session.connection()?, &consumer.queue)).await;
            session.finish(result)
        };
        known.await.unwrap_or(true)
    }

    fn keep(self: &Arc<Self>, ownership: Ownership) {
        if ownership.is_of_files() {
            self.connections.spawn(Arc::clone(self).guard(ownership.clone()));
        }
        *self.ownership.lock().unwrap_or_else(PoisonError::into_inner) = Some(ownership);
    }
}

impl<DB: Store> Engine for Running<DB> {
    fn health(&self) -> Health {
        self.board.health()
    }

    fn quiet(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.is_quiet())
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

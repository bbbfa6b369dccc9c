//! One supervised connection: connects, declares, watches, and connects again, for ever.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::tcp::OwnedTLSConfig;
use lapin::types::LongString;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, Event};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::quiet::QuietAuth;
use super::{RabbitError, answered, declare, url};
use crate::alert::{Alert, Alerts};
use crate::backoff::Backoff;
use crate::broker::topology::Topology;
use crate::broker::{Declare, EntityProblem};
use crate::telemetry::{Repeated, names};

/// How long a connection may take to close: a blocked broker does not answer.
const CLOSING: Duration = Duration::from_millis(1500);

/// How a connection is at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Not connected; the last error, if there was a try.
    Down(Option<String>),
    /// Connected; the number grows with each connection.
    Up(u64),
    /// Connected, and the broker takes nothing from it: a memory or disk alarm.
    Blocked(u64, String),
}

impl LinkState {
    /// The number of the connection, blocked or not.
    pub(crate) fn generation(&self) -> Option<u64> {
        match self {
            Self::Down(_) => None,
            Self::Up(generation) | Self::Blocked(generation, _) => Some(*generation),
        }
    }
}

/// What to set up on each connection.
#[derive(Debug, Clone)]
pub(crate) struct LinkPlan {
    /// `publisher` or `consumer`.
    pub(crate) role: &'static str,
    /// The instance's name, for the connection's name at the broker.
    pub(crate) instance: String,
    pub(crate) uri: AMQPUri,
    /// Certificates in PEM to trust for `amqps://`, beside the public ones.
    pub(crate) ca: Option<String>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) declare: Declare,
    pub(crate) alerts: Alerts,
}

/// A supervised connection.
#[derive(Debug)]
pub(crate) struct Link {
    plan: LinkPlan,
    state: watch::Sender<LinkState>,
    current: Mutex<Option<(u64, Arc<Connection>)>>,
    problems: Mutex<Vec<EntityProblem>>,
    /// The last connection that is up and does not answer.
    mute: watch::Sender<u64>,
}

impl Link {
    pub(crate) fn new(plan: LinkPlan) -> Arc<Self> {
        Arc::new(Self {
            plan,
            state: watch::Sender::new(LinkState::Down(None)),
            current: Mutex::new(None),
            problems: Mutex::new(Vec::new()),
            mute: watch::Sender::new(0),
        })
    }

    /// The state, now and later.
    pub(crate) fn state(&self) -> watch::Receiver<LinkState> {
        self.state.subscribe()
    }

    /// `publisher` or `consumer`.
    pub(crate) fn role(&self) -> &'static str {
        self.plan.role
    }

    /// Entities that could not be declared on the current connection.
    pub(crate) fn problems(&self) -> Vec<EntityProblem> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `user@host:port/vhost`.
    pub(crate) fn shown(&self) -> String {
        url::shown(&self.plan.uri)
    }

    /// The current connection.
    pub(crate) fn connection(&self) -> Result<(u64, Arc<Connection>), RabbitError> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(RabbitError::NotConnected)
    }

    /// A new channel on the current connection, with the connection's number.
    pub(crate) async fn channel(&self) -> Result<(u64, Channel), RabbitError> {
        let (generation, connection) = self.connection()?;
        let opened = answered("opening a channel", connection.create_channel()).await;
        // A blocked connection writes nothing, so nobody can answer. Any other one is replaced: a broker whose flow control waits for a queue that
        // died goes on with its heartbeats and reads nothing more (F33).
        if matches!(opened, Err(RabbitError::NoAnswer(_))) && matches!(*self.state.borrow(), LinkState::Up(_)) {
            self.mute.send_replace(generation);
        }
        Ok((generation, opened?))
    }

    /// Whether the topology of this runtime has that exchange.
    pub(crate) fn has_exchange(&self, exchange: &str) -> bool {
        self.plan.topology.exchanges.contains(exchange)
    }

    /// Declares everything again on the current connection: somebody deleted a queue under its consumer, or an exchange with its bindings.
    pub(crate) async fn declare_again(&self) -> Result<(), RabbitError> {
        let (_, connection) = self.connection()?;
        self.declare_on(&connection).await
    }

    async fn declare_on(&self, connection: &Connection) -> Result<(), RabbitError> {
        let problems = declare::declare(connection, &self.plan.topology, self.plan.declare).await?;
        for problem in &problems {
            tracing::error!(role = self.plan.role, entity = %problem.entity, problem = %problem.problem, cure = %problem.cure, "the broker refused an entity");
        }
        let known =
            std::mem::replace(&mut *self.problems.lock().unwrap_or_else(PoisonError::into_inner), problems.clone());
        for EntityProblem { entity, problem, cure } in problems.into_iter().filter(|problem| !known.contains(problem)) {
            self.plan.alerts.raise(|| Alert::BrokerEntity { entity, problem, cure });
        }
        Ok(())
    }

    /// One try to connect, for `fail_fast` and for the supervisor.
    pub(crate) async fn connect(&self) -> Result<Connection, RabbitError> {
        let name = format!("outbox {} {}", self.plan.role, self.plan.instance);
        let mut properties = ConnectionProperties::default().with_connection_name(LongString::from(name));
        if let Some(auth) = QuietAuth::new(&self.plan.uri) {
            properties = properties.with_auth_provider(auth);
        }
        let tls = OwnedTLSConfig { identity: None, cert_chain: self.plan.ca.clone() };
        let runtime = lapin::runtime::default_runtime().map_err(|error| RabbitError::Lapin("connecting", error))?;
        let connection = Connection::connect_uri_with_config(self.plan.uri.clone(), properties, tls, runtime);
        answered("connecting", connection).await
    }

    /// Keeps the connection up until `stop`.
    pub(crate) async fn supervise(self: Arc<Self>, stop: CancellationToken) {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        let mut trouble = Repeated::new();
        let mut generation = 0;
        while !stop.is_cancelled() {
            let mut connecting = Box::pin(self.connect());
            let connected = tokio::select! {
                connected = &mut connecting => connected,
                () = stop.cancelled() => {
                    // The client's own thread is at work on it, and panics if its runtime is gone before it is done.
                    if let Ok(Ok(connection)) = tokio::time::timeout(CLOSING, connecting).await {
                        let closed = connection.close(200, lapin::types::ShortString::from("shutdown"));
                        let _ = tokio::time::timeout(CLOSING, closed).await;
                    }
                    break;
                }
            };
            let error = match connected {
                Ok(connection) => {
                    generation += 1;
                    let lost = self.serve(connection, generation, &stop, &mut trouble, &mut backoff).await;
                    if stop.is_cancelled() {
                        break;
                    }
                    lost
                }
                Err(error) => error.to_string(),
            };
            self.set(LinkState::Down(Some(error.clone())));
            if let Some(count) = trouble.note(&error) {
                tracing::warn!(role = self.plan.role, broker = %self.shown(), %error, failures = count, "broker connection down; trying again for ever");
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next()) => {}
                () = stop.cancelled() => break,
            }
        }
        self.close().await;
    }

    /// Serves one connection until it ends; returns why.
    async fn serve(
        &self,
        connection: Connection,
        generation: u64,
        stop: &CancellationToken,
        trouble: &mut Repeated,
        backoff: &mut Backoff,
    ) -> String {
        let mut events = Box::pin(connection.events_listener());
        if let Err(error) = self.declare_on(&connection).await {
            return error.to_string();
        }
        let connection = Arc::new(connection);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some((generation, Arc::clone(&connection)));
        // A connection may be blocked from its first moment; the event came before there was a listener.
        self.set(if connection.status().blocked() {
            LinkState::Blocked(generation, "the broker blocks publishers".to_owned())
        } else {
            LinkState::Up(generation)
        });
        trouble.clear();
        backoff.reset();
        tracing::info!(role = self.plan.role, broker = %self.shown(), "broker connected");
        let mut check = tokio::time::interval(Duration::from_secs(1));
        let mut mute = self.mute.subscribe();
        let reason = loop {
            let event = tokio::select! {
                event = events.next() => event,
                _ = check.tick() => {
                    if connection.status().connected() { continue }
                    break "the connection is closed".to_owned();
                }
                () = async { drop(mute.wait_for(|mute| *mute == generation).await) } => {
                    let closed = connection.close(541, lapin::types::ShortString::from("no answer"));
                    let _ = tokio::time::timeout(CLOSING, closed).await;
                    break "the broker keeps the connection and does not answer on it".to_owned();
                }
                () = stop.cancelled() => return String::new(),
            };
            match event {
                Some(Event::ConnectionBlocked(reason)) => {
                    tracing::warn!(role = self.plan.role, %reason, "the broker blocks this connection; waiting");
                    self.set(LinkState::Blocked(generation, reason));
                }
                Some(Event::ConnectionUnblocked) => {
                    tracing::info!(role = self.plan.role, "the broker takes messages again");
                    self.set(LinkState::Up(generation));
                }
                Some(Event::Error(error)) if !connection.status().connected() => break error.to_string(),
                Some(_) => {}
                None => break "the connection is closed".to_owned(),
            }
        };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
        reason
    }

    fn set(&self, state: LinkState) {
        let role = self.plan.role;
        metrics::gauge!(names::BROKER_CONNECTED, "role" => role).set(f64::from(u8::from(state.generation().is_some())));
        let blocked = matches!(state, LinkState::Blocked(..));
        metrics::gauge!(names::BROKER_BLOCKED, "role" => role).set(f64::from(u8::from(blocked)));
        self.state.send_if_modified(|current| {
            let changed = *current != state;
            *current = state;
            changed
        });
    }

    /// Closes the current connection, with a deadline: a blocked broker does not answer.
    async fn close(&self) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.set(LinkState::Down(None));
        if let Some((_, connection)) = current {
            let closed = connection.close(200, lapin::types::ShortString::from("shutdown"));
            let _ = tokio::time::timeout(CLOSING, closed).await;
        }
    }
}

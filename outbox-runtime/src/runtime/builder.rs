//! Everything that can be said about a runtime before it starts.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::alert::{Alert, AlertAnswer, AlertHook};
use crate::broker::{Broker, Declare};
use crate::error::{Result, StartError};
use crate::handler::{HandlerDescriptor, StateMap};
use crate::registry::settings::OwnedSettings;
use crate::runtime::options::Hidden;
use crate::runtime::retention::Retention;
use crate::runtime::{ConsumerOptions, Database, Migrations, Role, Runtime, env};

/// Configures a [`Runtime`]. Nothing is checked before [`start`](Self::start), which reports every problem at once.
#[derive(Debug)]
#[must_use = "a runtime does nothing until it is started"]
pub struct RuntimeBuilder {
    pub(crate) database: Option<Database>,
    pub(crate) listen_url: Option<Hidden>,
    pub(crate) broker: Option<Broker>,
    pub(crate) moved_from: Option<Broker>,
    pub(crate) broker_ca: Option<String>,
    pub(crate) states: StateMap,
    pub(crate) role: Role,
    pub(crate) registry: Option<Vec<&'static HandlerDescriptor>>,
    pub(crate) consumers: Option<Vec<String>>,
    pub(crate) expected: Vec<String>,
    pub(crate) settings: BTreeMap<String, OwnedSettings>,
    pub(crate) namespace: Option<String>,
    pub(crate) instance: Option<String>,
    pub(crate) migrations: Migrations,
    pub(crate) declare: Declare,
    pub(crate) signals: bool,
    pub(crate) fail_fast: bool,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) lease: Duration,
    pub(crate) confirm_timeout: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) retention: Retention,
    pub(crate) dedup_window: Duration,
    pub(crate) alert_hook: Option<AlertHook>,
    pub(crate) batch: usize,
    pub(crate) window_bytes: usize,
    /// Variables of the environment that look like settings and are none, each with what may be meant.
    pub(crate) unknown_variables: Vec<(String, Option<&'static str>)>,
}

/// The defaults that contradict each other a little: see `check::notices`.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(25);
pub(super) const CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl RuntimeBuilder {
    pub(crate) fn new() -> Self {
        Self {
            database: None,
            listen_url: None,
            broker: None,
            moved_from: None,
            broker_ca: None,
            states: StateMap::default(),
            role: Role::All,
            registry: None,
            consumers: None,
            expected: Vec::new(),
            settings: BTreeMap::new(),
            namespace: None,
            instance: None,
            migrations: Migrations::Run,
            declare: Declare::On,
            signals: true,
            fail_fast: false,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
            lease: Duration::from_secs(60),
            confirm_timeout: CONFIRM_TIMEOUT,
            poll_interval: Duration::from_secs(1),
            retention: Retention::default(),
            dedup_window: DAY * 30,
            alert_hook: None,
            batch: 500,
            window_bytes: 16 * 1024 * 1024,
            unknown_variables: Vec::new(),
        }
    }

    /// Reads `DATABASE_URL`, `OUTBOX_LISTEN_URL`, `AMQP_URL` or `OUTBOX_BROKER=database`, `OUTBOX_BROKER_MOVED_FROM` (`database`), `OUTBOX_ROLE` (`all`, `relay`, `consume`, `publish-only`), `OUTBOX_NAMESPACE`, `OUTBOX_CONSUMERS` (names with
    /// commas), `OUTBOX_AMQP_CA_FILE`, `OUTBOX_MIGRATIONS` (`run`, `check`, `off`), `OUTBOX_DECLARE` (`on`, `passive`, `off`), `OUTBOX_RETENTION` (`keep:7d`, `delete`, `archive:table`, `archive:table:7d`), `OUTBOX_DEDUP_WINDOW` (`30d`), `OUTBOX_FAIL_FAST`,
    /// `OUTBOX_INSTANCE` and `OUTBOX_SHUTDOWN_SECONDS`; what is not set stays as it was. Any other variable that begins with `OUTBOX_` is warned of at
    /// the start, unless it begins with `OUTBOX_TEST_`.
    ///
    /// # Errors
    /// Every variable with a wrong value, at once.
    pub fn from_env(mut self) -> Result<Self, StartError> {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        self.unknown_variables = env::unknown(names);
        env::read(self, &|name| match std::env::var(name) {
            Ok(value) => Some(Ok(value)),
            Err(std::env::VarError::NotPresent) => None,
            Err(std::env::VarError::NotUnicode(_)) => Some(Err(())),
        })
    }

    /// Sets the database: a pool of the service's own.
    pub fn database(mut self, database: impl Into<Database>) -> Self {
        self.database = Some(database.into());
        self
    }

    /// Sets the database by its URL; the runtime opens a pool of the right size.
    pub fn database_url(mut self, url: impl Into<String>) -> Self {
        self.database = Some(Database::Url(url.into()));
        self
    }

    /// Sets where the runtime listens for events of other processes: a PostgreSQL URL that leads to the server itself. It is needed where
    /// [`database`](Self::database) goes through a pooler that hands connections out by transaction, such as `pgbouncer`, since nothing is heard
    /// through one; without it events are found by polling.
    pub fn listen_url(mut self, url: impl Into<String>) -> Self {
        self.listen_url = Some(Hidden(url.into()));
        self
    }

    /// Sets the broker.
    pub fn broker(mut self, broker: Broker) -> Self {
        self.broker = Some(broker);
        self
    }

    /// Says that this database may have worked with another broker before, and that the change is meant. Without it a runtime refuses to start on a
    /// database that remembers another broker: its messages would wait where nobody looks.
    ///
    /// Only [`Broker::Database`] can be left: messages that wait in its queues are still handled, and new events go to the new broker. It may stay
    /// in the configuration after the move.
    pub fn moved_from(mut self, broker: Broker) -> Self {
        self.moved_from = Some(broker);
        self
    }

    /// Trusts these certificates (PEM) for `amqps://`, beside the public ones: for a broker whose certificate comes from an authority of your own.
    pub fn broker_ca(mut self, pem: impl Into<String>) -> Self {
        self.broker_ca = Some(pem.into());
        self
    }

    /// Gives handlers a value: they take it as `State<T>`.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Sets what the runtime does.
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Uses these handlers, `handlers![path::to::handler]`, and nothing that is linked: for tests, plugins and platforms without link-time
    /// registration.
    pub fn registry(mut self, handlers: impl IntoIterator<Item = &'static HandlerDescriptor>) -> Self {
        self.registry = Some(handlers.into_iter().collect());
        self
    }

    /// Runs only these consumers of those that are linked.
    pub fn consumers<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.consumers = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Refuses to start unless these consumers have handlers in this binary: the guard against a crate that was not linked.
    pub fn expect_consumers<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.expected = names.into_iter().map(Into::into).collect();
        self
    }

    /// Settings of one consumer. What a handler or `consumer!` says otherwise is a start error with both places.
    pub fn consumer(mut self, name: impl Into<String>, options: ConsumerOptions) -> Self {
        self.settings.insert(name.into(), options.settings);
        self
    }

    /// A prefix for every exchange and queue: several systems on one vhost.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The name of this instance in claims, logs and at the broker; by default host-like and unique. Two instances may share a name.
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.instance = Some(name.into());
        self
    }

    /// Sets what happens to the tables at start.
    pub fn migrations(mut self, migrations: Migrations) -> Self {
        self.migrations = migrations;
        self
    }

    /// Sets what happens to exchanges, queues and bindings.
    pub fn declare(mut self, declare: Declare) -> Self {
        self.declare = declare;
        self
    }

    /// Whether [`Runtime::run`] stops at SIGTERM and SIGINT. Default: true.
    pub fn signals(mut self, signals: bool) -> Self {
        self.signals = signals;
        self
    }

    /// Whether an unreachable database or broker is a start error. Default: false; the runtime starts and keeps trying.
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.fail_fast = fail_fast;
        self
    }

    /// How long a shutdown takes, at most a day: three quarters of it (all but 4 s of a long one) for handlers and batches, the rest for closing.
    /// Default: 25 s.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = timeout;
        self
    }

    /// How long a relay's claim holds without renewal (1 s to a day), and how long its batches wait for confirms, which must be shorter. What a killed
    /// relay had claimed waits for the rest of the lease. Messages of the broker "database" are claimed for the same time. Defaults: 60 s, 30 s.
    pub fn lease(mut self, lease: Duration, confirm_timeout: Duration) -> Self {
        self.lease = lease;
        self.confirm_timeout = confirm_timeout;
        self
    }

    /// The longest pause between two looks at the outbox, whether or not anything is heard of events: from 1 ms to the lease. Default: 1 s.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// What becomes of published rows. Default: they are kept for 7 days.
    pub fn retention(mut self, retention: impl Into<Retention>) -> Self {
        self.retention = retention.into();
        self
    }

    /// How long dedup records are kept; older events are parked instead of being handled. Default: 30 days.
    pub fn dedup_window(mut self, window: Duration) -> Self {
        self.dedup_window = window;
        self
    }

    /// Calls this with what a person has to act on: an event that is held or Failed, a message that is Dead, ..
    ///
    /// It runs on the tokio runtime on which the runtime is started, one alert after the other, each for at most 10 seconds. A panic, an error or a slow
    /// callback stops and delays nothing: at most 1,000 alerts wait, and what does not fit is counted (`outbox_alerts_dropped_total`) and logged.
    /// Alerts are not kept across a crash: the metrics and the tables are the truth.
    ///
    /// ```
    /// # extern crate outbox_runtime as outbox;
    /// use outbox::{Alert, Runtime};
    ///
    /// let builder = Runtime::builder().on_alert(|alert: Alert| async move {
    ///     match &alert {
    ///         Alert::EventFailed { event_id, .. } => eprintln!("page somebody: {event_id} was not published"),
    ///         other => eprintln!("{other}"),
    ///     }
    /// });
    /// # let _ = builder;
    /// ```
    pub fn on_alert<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(Alert) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: AlertAnswer> + Send + 'static,
    {
        self.alert_hook = Some(AlertHook::new(callback));
        self
    }

    /// Rows of one relay batch, and bytes of bodies that a relay holds at most. Defaults: 500, 16 MiB.
    pub fn relay_limits(mut self, batch: usize, bytes: usize) -> Self {
        self.batch = batch;
        self.window_bytes = bytes;
        self
    }

    /// Checks everything, then starts.
    ///
    /// # Errors
    /// [`StartError`] with every problem at once. An unreachable database or broker is one only with [`fail_fast`](Self::fail_fast).
    ///
    /// # Cancel safety
    /// Dropped half-way, nothing runs.
    pub async fn start(self) -> Result<Runtime> {
        Runtime::start(self).await
    }
}

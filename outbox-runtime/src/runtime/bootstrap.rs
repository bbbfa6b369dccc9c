//! From a builder to a running engine: everything is checked as a whole before anything starts.

use std::sync::Arc;

use crate::error::{Result, StartError, StartProblem};
use crate::handler::DatabaseKind;
use crate::registry::Registry;
use crate::registry::resolve::{Wanted, resolve};
use crate::registry::table::table;
use crate::runtime::engine::{Engine, Running};
use crate::runtime::pools::Pools;
use crate::runtime::setup::Setup;
use crate::runtime::{RuntimeBuilder, check, database};
use crate::store::Store;

pub(super) async fn start(mut builder: RuntimeBuilder) -> Result<Arc<dyn Engine>> {
    let mut problems = check::problems(&builder);
    #[cfg(feature = "rabbitmq")]
    let uri = match &builder.broker {
        Some(crate::Broker::RabbitMq(text)) => match crate::broker::rabbitmq::url::parse("AMQP_URL", text) {
            Ok(uri) => Some(uri),
            Err(problem) => {
                problems.push(problem);
                None
            }
        },
        _ => None,
    };
    #[cfg(not(feature = "rabbitmq"))]
    if let Some(crate::Broker::RabbitMq(_)) = &builder.broker {
        problems.push(StartProblem::new(
            "AMQP_URL",
            "is set, and this build has no RabbitMQ",
            "switch it on: cargo add outbox -F rabbitmq; or set OUTBOX_BROKER=database instead",
        ));
    }
    let registry = match builder.registry.take() {
        Some(handlers) => Registry::explicit(handlers),
        None => Registry::linked(),
    };
    let wanted = Wanted {
        consumers: builder.consumers.clone(),
        expected: builder.expected.clone(),
        settings: builder.settings.clone(),
        namespace: builder.namespace.clone(),
        consumes: builder.role.consumes(),
    };
    let database = builder.database.take();
    let kind = database.as_ref().map(database::kind).transpose();
    let kind = kind.unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    let plans = match resolve(&registry, &wanted, &builder.states, kind) {
        Ok(plans) => plans,
        Err(found) => {
            problems.extend(found);
            Vec::new()
        }
    };
    let checked = Checked {
        #[cfg(feature = "rabbitmq")]
        uri,
        registry,
        plans,
        builder,
        problems,
    };
    match (kind, database) {
        #[cfg(feature = "postgres")]
        (Some(DatabaseKind::Postgres), Some(database)) => {
            let connections = checked.connections();
            checked.launch(crate::runtime::postgres::pools(database, connections)).await
        }
        #[cfg(feature = "sqlite")]
        (Some(DatabaseKind::Sqlite), Some(database)) => checked.launch(crate::runtime::sqlite::pools(database)).await,
        _ => Err(StartError::new(checked.problems).into()),
    }
}

/// What does not depend on the kind of database.
struct Checked {
    builder: RuntimeBuilder,
    #[cfg(feature = "rabbitmq")]
    uri: Option<lapin::uri::AMQPUri>,
    registry: Registry,
    plans: Vec<crate::consumer::plan::ConsumerPlan>,
    problems: Vec<StartProblem>,
}

/// How many connections a runtime wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connections {
    /// Handlers that may run at the same time.
    pub(super) handlers: u32,
    /// Queues of the database that are claimed from.
    #[cfg(feature = "postgres")]
    pub(super) queues: u32,
    /// How long a statement of the relay may take.
    #[cfg(feature = "postgres")]
    pub(super) statement: std::time::Duration,
}

impl Checked {
    fn connections(&self) -> Connections {
        Connections {
            handlers: self.plans.iter().map(|plan| u32::from(plan.concurrency)).sum(),
            #[cfg(feature = "postgres")]
            queues: match self.builder.broker {
                Some(crate::Broker::Database) => u32::try_from(self.plans.len()).unwrap_or(u32::MAX),
                _ => 0,
            },
            #[cfg(feature = "postgres")]
            statement: crate::runtime::setup::statement_deadline(&self.builder),
        }
    }

    /// Where to listen, if that is said.
    fn listen_options<DB: Store>(&mut self) -> Option<<DB::Connection as sqlx::Connection>::Options> {
        let crate::runtime::options::Hidden(url) = self.builder.listen_url.take()?;
        let example = "write it like this: postgres://user:password@host:5432/database";
        if !DB::NOTIFIES {
            let problem = format!("is set, and {} has no notifications to listen for", DB::KIND);
            self.problems.push(StartProblem::new("OUTBOX_LISTEN_URL", problem, "unset it"));
            return None;
        }
        // The parser's own message may quote the URL.
        let options = database::kind_of_url("OUTBOX_LISTEN_URL", &url, database::Compiled::HERE).and_then(|kind| {
            let wrong = || StartProblem::new("OUTBOX_LISTEN_URL", format!("is not a {} URL", DB::KIND), example);
            if kind == DB::KIND { url.parse().map_err(|_| wrong()) } else { Err(wrong()) }
        });
        options.map_err(|problem| self.problems.push(problem)).ok()
    }

    async fn launch<DB: Store>(
        mut self,
        pools: std::result::Result<Pools<DB>, StartProblem>,
    ) -> Result<Arc<dyn Engine>> {
        let connections = self.connections();
        let listen = self.listen_options::<DB>();
        let pools = match pools {
            Ok(pools) if self.problems.is_empty() => pools,
            pools => {
                self.problems.extend(pools.err());
                return Err(StartError::new(self.problems).into());
            }
        };
        announce(&table(&self.plans), self.plans.is_empty());
        check::tell(&self.builder, &self.registry.events);
        if let Some(room) = pools.room {
            let (pool, handlers) = (pools.service.options().get_max_connections(), connections.handlers);
            tracing::warn!(
                pool,
                handlers,
                at_once = room,
                cure = %format!("give the pool {} connections, or the consumers less concurrency", handlers + 2),
                "the pool is small for its handlers: only so many run at the same time, so that connections are left for what they need beside"
            );
        }
        let setup = Setup {
            instance: self.builder.instance.clone().unwrap_or_else(instance),
            events: self.registry.events,
            plans: self.plans,
            pool: pools.service,
            own_pool: pools.own,
            relay_pool: pools.relay,
            listen,
            own_sessions: pools.own_sessions,
            room: pools.room,
            shown: pools.shown,
            #[cfg(feature = "rabbitmq")]
            uri: self.uri,
            broker_kind: self.builder.broker.as_ref().map(crate::Broker::kind),
            builder: self.builder,
        };
        Running::<DB>::start(setup).await.map(|running| running as Arc<dyn Engine>)
    }
}

/// `host-ish:pid:random`: unique, and telling enough in `locked_by`.
fn instance() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|host| !host.is_empty() && host.len() <= 60);
    let random = ulid::Ulid::new().to_string();
    format!("{}-{}-{}", host.as_deref().unwrap_or("outbox"), std::process::id(), &random[20..])
}

/// The start-up table: in the log; without a subscriber one line says how to see it.
fn announce(table: &str, nothing: bool) {
    if !nothing {
        tracing::info!("outbox starts\n{table}");
    }
    if !tracing::dispatcher::has_been_set() {
        use std::io::Write as _;
        let _ = writeln!(
            std::io::stderr(),
            "outbox: no tracing subscriber is installed, so its log is not shown; add `tracing_subscriber::fmt::init();` to `main` (cargo add tracing-subscriber)"
        );
    }
}

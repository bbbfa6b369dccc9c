//! From a builder to a running engine: everything is checked as a whole before anything starts.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Postgres};

use crate::broker::Broker;
use crate::broker::rabbitmq::url;
use crate::error::{Result, StartError, StartProblem};
use crate::handler::DatabaseKind;
use crate::registry::Registry;
use crate::registry::resolve::{Wanted, resolve};
use crate::registry::table::table;
use crate::runtime::engine::{Engine, Running};
use crate::runtime::setup::Setup;
use crate::runtime::{Database, RuntimeBuilder, database};

pub(super) async fn start(mut builder: RuntimeBuilder) -> Result<Arc<dyn Engine>> {
    let mut problems = builder.problems();
    let broker = match &builder.broker {
        Some(Broker::RabbitMq(text)) => match url::parse("AMQP_URL", text) {
            Ok(uri) => Some(uri),
            Err(problem) => {
                problems.push(problem);
                None
            }
        },
        None => None,
    };
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
    let plans = match resolve(&registry, &wanted, &builder.states, DatabaseKind::Postgres) {
        Ok(plans) => plans,
        Err(found) => {
            problems.extend(found);
            Vec::new()
        }
    };
    let handlers: u32 = plans.iter().map(|plan| u32::from(plan.concurrency)).sum();
    let pools = match builder.database.take() {
        Some(database) => match pools(database, handlers) {
            Ok(pools) => Some(pools),
            Err(problem) => {
                problems.push(problem);
                None
            }
        },
        None => None,
    };
    let Some(pools) = pools.filter(|_| problems.is_empty()) else {
        return Err(StartError::new(problems).into());
    };
    announce(&table(&plans), plans.is_empty());
    if pools.service.options().get_max_connections() < handlers {
        tracing::warn!(
            pool = pools.service.options().get_max_connections(),
            handlers,
            "the pool has fewer connections than handlers may run at the same time; they will wait for each other"
        );
    }
    let setup = Setup {
        instance: builder.instance.clone().unwrap_or_else(instance),
        events: registry.events,
        plans,
        pool: pools.service,
        own_pool: pools.own,
        relay_pool: pools.relay,
        shown: pools.shown,
        uri: broker,
        broker_kind: builder.broker.as_ref().map(Broker::kind),
        builder,
    };
    Running::<Postgres>::start(setup).await.map(|running| running as Arc<dyn Engine>)
}

struct Pools {
    service: PgPool,
    own: bool,
    relay: PgPool,
    shown: String,
}

/// Connections of the relay: claim, settle, renew, maintain.
const RELAY_CONNECTIONS: u32 = 4;
/// Connections beside those of handlers: parking, re-runs, retention, probes.
const SPARE_CONNECTIONS: u32 = 4;

fn pools(database: Database, handlers: u32) -> Result<Pools, StartProblem> {
    let (service, own) = match database {
        Database::Postgres(pool) => (pool, false),
        Database::Url(text) => {
            database::check_scheme("DATABASE_URL", &text)?;
            // The parser's own message may quote the URL.
            let options = PgConnectOptions::from_str(&text).map_err(|_| {
                StartProblem::new(
                    "DATABASE_URL",
                    "is not a PostgreSQL URL",
                    "write it like this: postgres://user:password@host:5432/database; escape special characters of the password with %",
                )
            })?;
            let pool = own_pool(handlers + SPARE_CONNECTIONS).connect_lazy_with(options.application_name("outbox"));
            (pool, true)
        }
    };
    let options = PgConnectOptions::clone(&service.connect_options());
    let shown = database::shown(&options);
    let relay = own_pool(RELAY_CONNECTIONS).connect_lazy_with(options.application_name("outbox relay"));
    Ok(Pools { service, own, relay, shown })
}

/// A pool of ours: whatever the role's defaults are, single statements run in READ COMMITTED (S8), and a transaction that we forget does not
/// hold its locks for ever.
fn own_pool(connections: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .min_connections(0)
        .max_connections(connections.max(2))
        .acquire_timeout(Duration::from_secs(10))
        .after_connect(|connection, _| {
            Box::pin(async move {
                sqlx::raw_sql("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
                    .execute(connection)
                    .await?;
                Ok(())
            })
        })
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

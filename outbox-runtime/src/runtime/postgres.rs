//! Pools on PostgreSQL.

use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Postgres};

use crate::error::StartProblem;
use crate::runtime::Database;
use crate::runtime::bootstrap::Connections;
use crate::runtime::pools::Pools;

/// Connections that claim, settle, renew, sweep, retention, figures, announcements and the listener's trial share.
const RELAY_CONNECTIONS: u32 = 5;
/// Connections of consumers that claim from queues of the database: a claim is short, so they share.
const QUEUE_CONNECTIONS: u32 = 4;
/// Connections of the service's own pool that handlers leave to it.
const LEFT_TO_THE_POOL: u32 = 2;
/// Connections beside those of handlers: parking, re-runs, retention, probes.
const SPARE_CONNECTIONS: u32 = 4;

/// Changes nothing where nothing is to be changed: behind a transaction pooler the session may be somebody else's in a moment.
const READ_COMMITTED: &str = "
SELECT set_config('default_transaction_isolation', 'read committed', false)
WHERE current_setting('default_transaction_isolation') <> 'read committed'";

/// The service's pool or one of our own, and a small one for the relay.
pub(super) fn pools(database: Database, connections: Connections) -> Result<Pools<Postgres>, StartProblem> {
    let (service, own) = match database {
        Database::Postgres(pool) => (pool, false),
        #[cfg(feature = "sqlite")]
        Database::Sqlite(_) => {
            return Err(StartProblem::new("database", "is not PostgreSQL", "give it a PostgreSQL pool"));
        }
        Database::Url(text) => {
            // The parser's own message may quote the URL.
            let options = PgConnectOptions::from_str(&text).map_err(|_| {
                StartProblem::new(
                    "DATABASE_URL",
                    "is not a PostgreSQL URL",
                    "write it like this: postgres://user:password@host:5432/database; escape special characters of the password with %",
                )
            })?;
            let pool = own_pool(connections.handlers + SPARE_CONNECTIONS)
                .connect_lazy_with(options.application_name("outbox"));
            (pool, true)
        }
    };
    let options = PgConnectOptions::clone(&service.connect_options());
    let shown = shown(&options);
    let own_sessions = Arc::new(AtomicBool::new(false));
    let relay =
        relay_pool(connections, Arc::clone(&own_sessions)).connect_lazy_with(options.application_name("outbox relay"));
    let room = room(service.options().get_max_connections(), connections.handlers);
    Ok(Pools { service, own, relay, shown, own_sessions, room })
}

/// How many handlers a pool of that size has room for; `None`: for all of them. If they had every connection, one that asks the pool for a second one
/// would wait for the others, which wait for theirs, until all have failed (F23); so would whoever parks a message.
fn room(pool: u32, handlers: u32) -> Option<u32> {
    let left = pool.saturating_sub(LEFT_TO_THE_POOL);
    (left < handlers).then(|| left.max(1))
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
                sqlx::raw_sql(READ_COMMITTED).execute(connection).await?;
                Ok(())
            })
        })
}

/// The relay's statements are planned each time for the table as it is, and through its indexes: a plan that was made while the table was small reads
/// all of it later, for as long as the session lives. And what the relay has given up ends on the server too, shortly before: abandoned, a
/// statement would keep its locks, and the next try would wait for them.
fn relay_pool(connections: Connections, own_sessions: Arc<AtomicBool>) -> PgPoolOptions {
    let timeout = (connections.statement * 9 / 10).as_millis().max(1);
    let settings: Arc<str> = format!(
        "SET plan_cache_mode = force_custom_plan; SET enable_seqscan = off; SET jit = off; SET statement_timeout = {timeout}"
    )
    .into();
    own_pool(RELAY_CONNECTIONS + connections.queues.min(QUEUE_CONNECTIONS)).after_connect(move |connection, _| {
        let settings = own_sessions.load(Ordering::Acquire).then(|| Arc::clone(&settings));
        Box::pin(async move {
            sqlx::raw_sql(READ_COMMITTED).execute(&mut *connection).await?;
            if let Some(settings) = settings {
                sqlx::raw_sql(AssertSqlSafe(settings.as_ref().to_owned())).execute(connection).await?;
            }
            Ok(())
        })
    })
}

/// `host:port/database` of what is tried, for messages.
fn shown(options: &PgConnectOptions) -> String {
    format!(
        "{}@{}:{}/{}",
        options.get_username(),
        options.get_socket().map_or_else(|| options.get_host().to_owned(), |path| path.display().to_string()),
        options.get_port(),
        options.get_database().unwrap_or(options.get_username()),
    )
}

#[cfg(test)]
mod tests {
    use super::room;

    /// F23.
    #[test]
    fn handlers_never_take_the_last_connection() {
        let table = [
            (1, 1, Some(1)),
            (2, 1, Some(1)),
            (3, 1, None),
            (5, 20, Some(3)),
            (20, 20, Some(18)),
            (21, 20, Some(19)),
            (22, 20, None),
        ];
        for (pool, handlers, want) in table {
            assert_eq!(room(pool, handlers), want, "{pool} connections, {handlers} handlers");
        }
        assert_eq!(room(1, 0), None, "no handlers, no limit");
        assert_eq!(room(u32::MAX, u32::MAX), Some(u32::MAX - 2));
    }
}

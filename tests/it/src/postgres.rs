//! A database of the test's own on the server under test.

use std::str::FromStr;
use std::sync::Once;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgPool};

use crate::names;

/// The server under test: `OUTBOX_TEST_POSTGRES`, else `DATABASE_URL`, else the standard local port.
pub fn server_url() -> String {
    ["OUTBOX_TEST_POSTGRES", "DATABASE_URL"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()))
        .unwrap_or_else(|| "postgres://postgres@127.0.0.1:5432/postgres".into())
}

/// A uniquely named database; dropped (with whoever is still connected) when this value is.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    server: String,
    pool: PgPool,
}

impl TestDatabase {
    /// A new, empty database on the server under test.
    pub async fn new() -> Self {
        Self::on(&server_url()).await
    }

    /// A new, empty database on the server of that URL, such as an [`OwnPostgres`](crate::OwnPostgres).
    pub async fn on(server: &str) -> Self {
        let mut admin = connect(server).await;
        let name = names::unique();
        execute(&mut admin, &format!("CREATE DATABASE {name}")).await;
        sweep_once(&mut admin).await;
        let _ = admin.close().await;
        let pool = PgPoolOptions::new().max_connections(5).connect_lazy_with(options_of(server, &name));
        Self { name, server: server.to_owned(), pool }
    }

    /// The database's URL.
    pub fn url(&self) -> String {
        let mut url = url::Url::parse(&self.server).expect("the server's URL");
        url.set_path(&self.name);
        url.into()
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connect options, for a test that sets something of its own.
    pub fn options(&self) -> PgConnectOptions {
        options_of(&self.server, &self.name)
    }

    /// A small pool for the test's own statements.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// A further pool of that size, as an application under test would have.
    pub fn pool_of(&self, max_connections: u32) -> PgPool {
        PgPoolOptions::new().max_connections(max_connections).connect_lazy_with(self.options())
    }

    /// Runs statements without parameters, any number in one text.
    pub async fn execute(&self, sql: &str) {
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.pool).await;
        done.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// The one number that a query returns.
    pub async fn number(&self, sql: &str) -> i64 {
        let value = sqlx::query_scalar::<_, i64>(AssertSqlSafe(sql)).fetch_one(&self.pool).await;
        value.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// The rows of a table for which a condition holds (`"true"` for all).
    pub async fn count(&self, table: &str, condition: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM {table} WHERE {condition}")).await
    }

    /// Sessions of this database, other than the asking one, for which a condition on `pg_stat_activity` holds.
    pub async fn sessions(&self, condition: &str) -> i64 {
        let others = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        self.count("pg_stat_activity", &format!("{others} AND ({condition})")).await
    }

    /// Sessions that sit in an open transaction for longer than that.
    pub async fn idle_in_transaction(&self, longer_than: Duration) -> i64 {
        let seconds = longer_than.as_secs_f64();
        self.sessions(&format!(
            "state LIKE 'idle in transaction%' AND state_change < now() - make_interval(secs => {seconds})"
        ))
        .await
    }

    /// Ends every other session of this database, as a server's restart does.
    pub async fn terminate_sessions(&self) -> i64 {
        let others = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        self.number(&format!(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {others}"
        ))
        .await
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // A test's runtime may be shutting down: the drop has a thread and a runtime of its own.
        let dropper = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let drop = async {
                    let mut admin = PgConnection::connect(&server).await?;
                    let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await
                };
                // A server that the test has stopped takes its databases along.
                let _ = tokio::time::timeout(Duration::from_secs(10), drop).await;
            });
        });
        let _ = dropper.join();
    }
}

fn options_of(server: &str, database: &str) -> PgConnectOptions {
    PgConnectOptions::from_str(server).expect("the server's URL").database(database)
}

async fn connect(server: &str) -> PgConnection {
    let busy = |e: &sqlx::Error| e.as_database_error().and_then(|e| e.code()).as_deref() == Some("53300");
    let started = std::time::Instant::now();
    let mut connected = PgConnection::connect(server).await;
    // Somebody else's load on a shared server is no failure of this test.
    while connected.as_ref().is_err_and(busy) && started.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        connected = PgConnection::connect(server).await;
    }
    connected.unwrap_or_else(|e| {
        panic!("no PostgreSQL for the tests: {e}\nRun ./test, which starts one, or set OUTBOX_TEST_POSTGRES to a server where databases may be created")
    })
}

async fn execute(connection: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// Drops what killed runs left, once per process.
async fn sweep_once(admin: &mut PgConnection) {
    static SWEPT: Once = Once::new();
    let mut first = false;
    SWEPT.call_once(|| first = true);
    if !first {
        return;
    }
    let like = format!("{}%", names::PREFIX.replace('_', "\\_"));
    let found = sqlx::query_scalar::<_, String>("SELECT datname FROM pg_database WHERE datname LIKE $1");
    let found = found.bind(like).fetch_all(&mut *admin).await.unwrap_or_default();
    for name in found.into_iter().filter(|name| names::is_stale(name)) {
        let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        let _ = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *admin).await;
    }
}

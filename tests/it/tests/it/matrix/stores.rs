//! What the bodies need of a store beside the library: a fresh database, SQL, and the handlers on its connections.

use std::future::Future;
use std::time::Duration;

use outbox_it::{TestSchema, names};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Pool, Postgres, Row, Sqlite, SqlitePool, Transaction};

use super::handlers::{self, Handlers};

/// A store that the matrix runs on.
pub trait TestStore: outbox::Store {
    /// A database of one test; it goes away when this value is dropped.
    type Server: Send + Sync;

    /// How the table of the guarantees calls it.
    const TITLE: &'static str;
    /// The time of now as the tables write it.
    const NOW: &'static str;
    /// The body of a parked message in hexadecimal capitals.
    const BODY_HEX: &'static str;
    /// How many effects of a run stay whose handler commits by itself.
    const KEPT_BY_COMMIT: usize;

    fn create() -> impl Future<Output = Self::Server> + Send;
    fn url(server: &Self::Server) -> String;
    fn pool(server: &Self::Server) -> &Pool<Self>;
    fn begin_on(pool: &Pool<Self>) -> impl Future<Output = Transaction<'static, Self>> + Send;
    /// Runs statements without parameters.
    fn try_execute(pool: &Pool<Self>, sql: &str) -> impl Future<Output = sqlx::Result<()>> + Send;
    /// The rows of a query whose columns are text, none of them NULL.
    fn rows(pool: &Pool<Self>, sql: &str) -> impl Future<Output = Vec<Vec<String>>> + Send;
    /// So many seconds from now, or before it, as the tables write it.
    fn in_seconds(seconds: i64) -> String;
    /// That time (RFC 3339, UTC) as the tables write it.
    fn time(rfc3339: &str) -> String;
    /// So long as the tables write it.
    fn age(milliseconds: u32) -> String;
    /// The first and the last time that a column can hold.
    const ABSURD_TIMES: [&str; 2];
    fn handlers() -> Handlers;
}

impl TestStore for Postgres {
    type Server = TestSchema;

    const TITLE: &'static str = "PostgreSQL";
    const NOW: &'static str = "now()";
    const BODY_HEX: &'static str = "upper(encode(body, 'hex'))";
    const KEPT_BY_COMMIT: usize = 1;

    async fn create() -> TestSchema {
        TestSchema::new().await
    }

    fn url(server: &TestSchema) -> String {
        server.url().to_owned()
    }

    fn pool(server: &TestSchema) -> &Pool<Self> {
        server.pool()
    }

    async fn begin_on(pool: &Pool<Self>) -> Transaction<'static, Self> {
        outbox::begin(pool).await.expect("begin")
    }

    async fn try_execute(pool: &Pool<Self>, sql: &str) -> sqlx::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.map(drop)
    }

    async fn rows(pool: &Pool<Self>, sql: &str) -> Vec<Vec<String>> {
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(pool).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        rows.iter().map(|row| (0..row.len()).map(|n| row.get(n)).collect()).collect()
    }

    fn in_seconds(seconds: i64) -> String {
        format!("(now() + {seconds} * interval '1 second')")
    }

    fn time(rfc3339: &str) -> String {
        format!("'{rfc3339}'::timestamptz")
    }

    fn age(milliseconds: u32) -> String {
        format!("({milliseconds} * interval '1 millisecond')")
    }

    const ABSURD_TIMES: [&str; 2] = ["'-infinity'", "'infinity'"];

    fn handlers() -> Handlers {
        handlers::on_postgres::all()
    }
}

/// A file in a directory of its own.
pub struct TestFile {
    url: String,
    pool: SqlitePool,
    // Removed after the pool is dropped.
    _directory: tempfile::TempDir,
}

impl TestStore for Sqlite {
    type Server = TestFile;

    const TITLE: &'static str = "SQLite";
    const NOW: &'static str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";
    const BODY_HEX: &'static str = "hex(body)";
    const KEPT_BY_COMMIT: usize = 0;

    async fn create() -> TestFile {
        let directory = names::server_dir("sqlite");
        let file = directory.path().join("matrix.db");
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(20));
        let pool = SqlitePoolOptions::new().max_connections(3).connect_lazy_with(options);
        TestFile { url: format!("sqlite://{}", file.display()), pool, _directory: directory }
    }

    fn url(server: &TestFile) -> String {
        server.url.clone()
    }

    fn pool(server: &TestFile) -> &Pool<Self> {
        &server.pool
    }

    async fn begin_on(pool: &Pool<Self>) -> Transaction<'static, Self> {
        outbox::begin(pool).await.expect("begin")
    }

    async fn try_execute(pool: &Pool<Self>, sql: &str) -> sqlx::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.map(drop)
    }

    async fn rows(pool: &Pool<Self>, sql: &str) -> Vec<Vec<String>> {
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(pool).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        rows.iter().map(|row| (0..row.len()).map(|n| row.get(n)).collect()).collect()
    }

    fn in_seconds(seconds: i64) -> String {
        format!("({} + {seconds} * 1000000)", Self::NOW)
    }

    fn time(rfc3339: &str) -> String {
        format!("(unixepoch('{rfc3339}') * 1000000)")
    }

    fn age(milliseconds: u32) -> String {
        format!("({milliseconds} * 1000)")
    }

    const ABSURD_TIMES: [&str; 2] = ["(-9223372036854775807 - 1)", "9223372036854775807"];

    fn handlers() -> Handlers {
        handlers::on_sqlite::all()
    }
}

//! A SQLite file of one test, and a service on it.

use std::path::PathBuf;
use std::time::Duration;

use outbox::{Broker, RuntimeBuilder, handler, handlers};
use outbox_it::eventually;
use sqlx::AssertSqlSafe;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool, SqlitePoolOptions};
use tempfile::TempDir;

use crate::world::OrderCreated;

#[handler(consumer = "files", concurrency = 4, retry(immediate = 0, delays = "50ms..100ms", max_attempts = 3))]
pub async fn note(order: OrderCreated, db: &mut SqliteConnection) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO effects (order_id) VALUES ($1)").bind(order.order_id).execute(db).await?;
    Ok(())
}

/// A file in a directory of its own.
pub struct Place {
    pub directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("shop.db")
    }

    pub fn url(&self, parameters: &str) -> String {
        format!("sqlite://{}{parameters}", self.path().display())
    }

    pub fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new().filename(self.path()).create_if_missing(true)
    }

    /// A file with all tables, used before.
    pub async fn prepared() -> (Self, SqlitePool) {
        let place = Self::new();
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(place.options()).await.unwrap();
        outbox::migrate(&pool).await.unwrap();
        execute(&pool, "CREATE TABLE effects (order_id TEXT NOT NULL) STRICT").await;
        (place, pool)
    }

    pub fn runtime(&self, parameters: &str) -> RuntimeBuilder {
        builder().database_url(self.url(parameters))
    }

    /// Why it does not start.
    pub async fn refusal(&self, parameters: &str) -> String {
        let error = self.runtime(parameters).fail_fast(true).start().await.expect_err("it must not start").to_string();
        assert!(error.contains("DATABASE_URL") && error.contains("shop.db"), "setting and file are named: {error}");
        error
    }
}

pub fn builder() -> RuntimeBuilder {
    outbox::Runtime::builder()
        .broker(Broker::Database)
        .registry(handlers![note])
        .signals(false)
        .poll_interval(Duration::from_millis(50))
        .shutdown_timeout(Duration::from_secs(10))
}

pub async fn execute(pool: &SqlitePool, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

pub async fn number(pool: &SqlitePool, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(pool).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

pub async fn enqueue(pool: &SqlitePool, from: usize, to: usize) {
    let mut tx = outbox::begin(pool).await.unwrap();
    outbox::enqueue_all(&mut tx, (from..to).map(|n| OrderCreated::number(n).draft())).await.unwrap();
    tx.commit().await.unwrap();
}

pub async fn settled(pool: &SqlitePool, orders: i64) {
    eventually(Duration::from_secs(20), &format!("{orders} effects"), async || {
        number(pool, "SELECT count(DISTINCT order_id) FROM effects").await == orders
    })
    .await;
    assert_eq!(number(pool, "SELECT count(*) FROM effects").await, orders, "none is doubled");
}

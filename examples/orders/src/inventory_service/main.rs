//! The inventory service: reserves stock for each order and says so.
//!
//! It shows the library as the whole service: there is nothing but a handler, and the runtime is the main loop.
//!
//! Environment: `DATABASE_URL`, `AMQP_URL` or `OUTBOX_BROKER=database`, `RUST_LOG`, and what `RuntimeBuilder::from_env` reads.

mod events;
mod reserve;

use std::str::FromStr as _;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use outbox::runtime;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

/// Handlers and the runtime's own statements share the pool.
const CONNECTIONS: u32 = 12;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).init();

    runtime::builder()
        .from_env()?
        .database(database().await?)
        .expect_consumers(["inventory"])
        // What a killed instance had claimed is published by another one after at most one lease.
        .lease(Duration::from_secs(10), Duration::from_secs(5))
        .start()
        .await?
        // Until SIGTERM or SIGINT; then handlers finish, and the rest goes back to where it came from.
        .run()
        .await?;
    Ok(())
}

/// Connects and creates the service's own tables.
async fn database() -> anyhow::Result<PgPool> {
    let url = std::env::var("DATABASE_URL")
        .context("DATABASE_URL is not set; write it like this: postgres://user:password@host:5432/inventory")?;
    // The parser's own error may quote the URL, password included.
    let options = PgConnectOptions::from_str(&url).map_err(|_| anyhow!("DATABASE_URL is not a PostgreSQL URL"))?;
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(Duration::from_secs(10))
        .connect_with(options.application_name("inventory-service"))
        .await
        .context("connecting to the database in DATABASE_URL")?;
    sqlx::raw_sql(include_str!("../../sql/inventory.sql"))
        .execute(&pool)
        .await
        .context("creating the tables of inventory")?;
    Ok(pool)
}

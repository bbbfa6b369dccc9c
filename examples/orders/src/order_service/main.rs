//! The order service: takes orders over HTTP and tells the world about them.
//!
//! It shows the library inside an application that has a main loop of its own: the web server decides when to stop, and the runtime follows.
//!
//! Environment: `DATABASE_URL`, `AMQP_URL` or `OUTBOX_BROKER=database`, `LISTEN` (default `127.0.0.1:8080`), `RUST_LOG`, and what `RuntimeBuilder::from_env` reads.

mod amount;
mod api;
mod error;
mod events;
mod orders;
mod stop;

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use outbox::runtime;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::net::TcpListener;

/// Requests, handlers and the runtime's own statements share the pool.
const CONNECTIONS: u32 = 20;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter(log_filter()).init();

    let pool = database().await?;
    // First the port: an address that is taken is found out before anything runs.
    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(&address).await.with_context(|| format!("LISTEN={address}"))?;

    let runtime = runtime::builder()
        .from_env()?
        .database(&pool)
        .expect_consumers(["orders"])
        // What a killed instance had claimed is published by another one after at most one lease.
        .lease(Duration::from_secs(10), Duration::from_secs(5))
        // SIGTERM belongs to the web server: it stops taking requests first, and the runtime publishes what they wrote.
        .signals(false)
        .start()
        .await?;
    let runtime = Arc::new(runtime);

    tracing::info!(%address, "taking orders");
    let app = api::router(pool, Arc::clone(&runtime));
    let served = stop::serve(listener, app, Arc::clone(&runtime)).await;

    // Also when the server failed: the events of the orders that were taken should go out.
    tokio::select! {
        () = runtime.shutdown() => {}
        signal = stop::signal() => anyhow::bail!("{signal} again: stopped at once; another instance takes over when the leases run out"),
    }
    served
}

/// Connects and creates the service's own tables.
async fn database() -> anyhow::Result<PgPool> {
    let url = std::env::var("DATABASE_URL")
        .context("DATABASE_URL is not set; write it like this: postgres://user:password@host:5432/orders")?;
    // The parser's own error may quote the URL, password included.
    let options = PgConnectOptions::from_str(&url).map_err(|_| anyhow!("DATABASE_URL is not a PostgreSQL URL"))?;
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(Duration::from_secs(10))
        .connect_with(options.application_name("order-service"))
        .await
        .context("connecting to the database in DATABASE_URL")?;
    sqlx::raw_sql(include_str!("../../sql/orders.sql"))
        .execute(&pool)
        .await
        .context("creating the tables of orders")?;
    Ok(pool)
}

fn log_filter() -> tracing_subscriber::EnvFilter {
    tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into())
}

//! A service that does everything in one process, to be killed at any moment: it produces, relays and handles, with the database as the broker.
//!
//! `worker URL`: until it is killed. `worker URL --drain`: produces nothing, and ends when nothing is left to do.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use outbox::{Broker, handler, handlers};
use sqlx::{PgConnection, SqliteConnection};

#[outbox::event(name = "worker.ticked", exchange = "worker.events", key = id)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Ticked {
    id: String,
}

/// One database: its handler writes an effect without a unique key and pauses, its producer writes what it intends in the event's own transaction,
/// and takes every tenth back.
macro_rules! on {
    ($handler:ident, $consumer:literal, $connection:ty, $produce:ident, $pool:ty) => {
        #[handler(consumer = $consumer, concurrency = 8, retry(immediate = 0, delays = "10ms..50ms", max_attempts = 1000))]
        async fn $handler(tick: Ticked, db: &mut $connection) -> sqlx::Result<()> {
            sqlx::query("INSERT INTO effects (id) VALUES ($1)").bind(&tick.id).execute(&mut *db).await?;
            tokio::time::sleep(Duration::from_millis(3)).await;
            Ok(())
        }

        async fn $produce(pool: $pool) -> anyhow::Result<()> {
            for number in 0_u64.. {
                let mut tx = outbox::begin(&pool).await?;
                for part in 0..3 {
                    let id = format!("{}-{number}-{part}", std::process::id());
                    sqlx::query("INSERT INTO intended (id) VALUES ($1)").bind(&id).execute(&mut *tx).await?;
                    Ticked { id }.enqueue(&mut tx).await?;
                }
                if number % 10 == 9 {
                    tx.rollback().await?;
                } else {
                    tx.commit().await?;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Ok(())
        }
    };
}

on!(effect_in_postgres, "worker-postgres", PgConnection, produce_on_postgres, sqlx::PgPool);
on!(effect_in_sqlite, "worker-sqlite", SqliteConnection, produce_on_sqlite, sqlx::SqlitePool);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let url = arguments.first().cloned().unwrap_or_default();
    let sqlite = url.starts_with("sqlite:");
    let builder = outbox::Runtime::builder()
        .broker(Broker::Database)
        .database_url(&url)
        .lease(Duration::from_secs(1), Duration::from_millis(500))
        .poll_interval(Duration::from_millis(50));
    let builder = if sqlite {
        builder.registry(handlers![effect_in_sqlite])
    } else {
        builder.registry(handlers![effect_in_postgres])
    };
    let runtime = builder.start().await?;
    if arguments.iter().any(|argument| argument == "--drain") {
        runtime.idle().await;
        runtime.shutdown().await;
        return Ok(());
    }
    if sqlite {
        let pool = sqlx::SqlitePool::connect(&url).await?;
        println!("worker started");
        produce_on_sqlite(pool).await
    } else {
        let pool = sqlx::PgPool::connect(&url).await?;
        println!("worker started");
        produce_on_postgres(pool).await
    }
}

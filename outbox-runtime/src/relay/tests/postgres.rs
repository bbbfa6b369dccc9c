//! On a database of its own on the server under test.

use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Pool, Postgres, Row as _};

use super::table::{Seen, Table, table};
use crate::store::Store;

pub(super) struct Database {
    pool: PgPool,
}

impl Table for Postgres {
    type World = Database;

    const EXPIRE: &'static str = "UPDATE outbox_messages SET locked_until = '-infinity' WHERE status = 'Processing'";
    const TIME_PASSES: &'static str = "UPDATE outbox_messages SET next_attempt_at = clock_timestamp()
         WHERE status = 'Pending' AND next_attempt_at < 'infinity' AND next_attempt_at > clock_timestamp()";

    fn pool(world: &Database) -> &Pool<Postgres> {
        &world.pool
    }

    table!();
}

/// The server under test, as in `tests/it`.
fn server() -> PgConnectOptions {
    let url = ["OUTBOX_TEST_POSTGRES", "DATABASE_URL"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|url| url.starts_with("postgres")))
        .unwrap_or_else(|| "postgres://postgres@127.0.0.1:5432/postgres".to_owned());
    PgConnectOptions::from_str(&url).unwrap()
}

#[test]
fn random_histories_on_postgres_keep_every_promise() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // As `tests/it` names its databases, whose sweep then finds what a killed run left.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let name = format!("outbox_it_{now}_{}_model", std::process::id());
    let admin = runtime.block_on(async {
        let admin = PgPoolOptions::new().max_connections(1).connect_with(server()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&admin).await.unwrap();
        admin
    });
    let tested = std::panic::catch_unwind(|| {
        let world = runtime.block_on(async {
            let options = server().database(&name).options([("synchronous_commit", "off")]);
            let pool = PgPoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
            Postgres::migrate(&mut *pool.acquire().await.unwrap()).await.unwrap();
            Database { pool }
        });
        super::check::<Postgres>(&world, &runtime, 500);
        runtime.block_on(world.pool.close());
    });
    runtime.block_on(async {
        let drop = AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
        sqlx::raw_sql(drop).execute(&admin).await.unwrap();
    });
    if let Err(panic) = tested {
        std::panic::resume_unwind(panic);
    }
}

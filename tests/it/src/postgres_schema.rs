//! A schema of the test's own in a database that the tests of one hour share: a database of one's own costs seconds of flushes.

use std::time::Duration;

use sqlx::postgres::{PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgPool};

use crate::names;
use crate::postgres::server_url;

/// A uniquely named schema that `search_path` points at; dropped with what is in it when this value is.
#[derive(Debug)]
pub struct TestSchema {
    name: String,
    url: String,
    pool: PgPool,
}

impl TestSchema {
    /// A new, empty schema on the server under test.
    pub async fn new() -> Self {
        let hour = names::STALE_AFTER.as_secs();
        // The sweep of `TestDatabase` takes it two hours later.
        let database = format!("{}{}_shared", names::PREFIX, (names::now() / hour + 1) * hour);
        let mut url = url::Url::parse(&server_url()).expect("the server's URL");
        url.set_path(&database);
        let name = names::unique();
        let create = format!("CREATE SCHEMA {name}");
        let mut created = execute(url.as_str(), &create).await;
        if created.is_err() {
            // Another test may be at it too.
            let made = execute(&server_url(), &format!("CREATE DATABASE {database}")).await;
            created = execute(url.as_str(), &create).await;
            if let Err(error) = &created {
                panic!(
                    "no PostgreSQL for the tests: {error}, {made:?}\nRun ./test, which starts one, or set OUTBOX_TEST_POSTGRES to a server where databases may be created"
                );
            }
        }
        url.query_pairs_mut().append_pair("options", &format!("-c search_path={name}"));
        // A query string of a form has `+` for a blank; a connection string has not.
        let url = url.as_str().replace('+', "%20");
        let pool = PgPoolOptions::new().max_connections(5).connect_lazy(&url).expect("the schema's URL");
        Self { name, url, pool }
    }

    /// A URL whose sessions have the schema as their `search_path`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A small pool for the test's own statements.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }
}

impl Drop for TestSchema {
    fn drop(&mut self) {
        let (url, sql) = (self.url.clone(), format!("DROP SCHEMA {} CASCADE", self.name));
        // A test's runtime may be shutting down: the drop has a thread and a runtime of its own.
        let dropper = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                // What an abandoned transaction still locks goes with the database.
                let _ = tokio::time::timeout(Duration::from_secs(5), execute(&url, &sql)).await;
            });
        });
        let _ = dropper.join();
    }
}

async fn execute(url: &str, sql: &str) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::raw_sql(AssertSqlSafe("SET synchronous_commit = off")).execute(&mut connection).await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
    connection.close().await
}

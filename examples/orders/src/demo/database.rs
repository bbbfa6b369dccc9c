//! The PostgreSQL server, and databases of the demo's own on it.

use std::str::FromStr as _;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgPool};
use url::Url;

/// How long a server may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A server where databases may be created.
#[derive(Debug)]
pub(crate) struct Server {
    url: Url,
}

impl Server {
    /// The one in `DATABASE_URL`, else one on the standard local port.
    pub(crate) async fn find() -> anyhow::Result<Self> {
        let candidates = match std::env::var("DATABASE_URL") {
            Ok(url) if !url.is_empty() => vec![url],
            _ => {
                let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
                ["postgres", "postgres:postgres", &user]
                    .map(|login| format!("postgres://{login}@127.0.0.1:5432/postgres"))
                    .into()
            }
        };
        let mut tried = String::new();
        for candidate in candidates {
            // Neither parser's message is shown: it may quote the password.
            let url = Url::parse(&candidate).map_err(|_| anyhow!("DATABASE_URL is not a URL"))?;
            match connect(&url).await {
                Ok(connection) => {
                    let _ = connection.close().await;
                    return Ok(Self { url });
                }
                Err(error) => {
                    let (user, host, port) = (url.username(), url.host_str().unwrap_or(""), url.port().unwrap_or(5432));
                    tried.push_str(&format!("\n  {user}@{host}:{port}: {error}"));
                }
            }
        }
        bail!(
            "no PostgreSQL; tried:{tried}\n\
             Start one: docker run -d -p 127.0.0.1:5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust postgres:17\n\
             or set DATABASE_URL=postgres://user:password@host:5432/postgres to a server where databases may be created"
        )
    }

    /// Creates an empty database.
    pub(crate) async fn create(&self, name: &str) -> anyhow::Result<Database> {
        // template0: nobody can be connected to it, which would make the server refuse.
        self.run(&format!("CREATE DATABASE {name} TEMPLATE template0"))
            .await
            .with_context(|| format!("creating the database {name}"))?;
        let mut url = self.url.clone();
        url.set_path(name);
        // The library's tables are those in `public`, whatever the path of the role says: services that share a database share them.
        url.query_pairs_mut().append_pair("options", "-c search_path=public");
        let options = options(&url)?;
        let pool = PgPoolOptions::new().max_connections(2).acquire_timeout(ANSWER).connect_lazy_with(options);
        Ok(Database { name: name.to_owned(), url: url.into(), pool })
    }

    /// Drops a database with whoever is still connected.
    pub(crate) async fn drop(&self, database: &Database) -> anyhow::Result<()> {
        database.pool.close().await;
        self.run(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", database.name)).await
    }

    async fn run(&self, sql: &str) -> anyhow::Result<()> {
        let mut connection = connect(&self.url).await?;
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
        let _ = connection.close().await;
        Ok(())
    }
}

/// A database of one service or of both.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    pub(crate) name: String,
    /// With its password: for the service, not for messages.
    pub(crate) url: String,
    pool: PgPool,
}

impl Database {
    /// For statements that are not questions.
    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// The one number that a query returns.
    pub(crate) async fn number(&self, sql: &'static str) -> anyhow::Result<i64> {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.with_context(|| format!("{}: {sql}", self.name))
    }

    /// Pairs of a text and a number.
    pub(crate) async fn pairs(&self, sql: &'static str) -> anyhow::Result<Vec<(String, i64)>> {
        sqlx::query_as(sql).fetch_all(&self.pool).await.with_context(|| format!("{}: {sql}", self.name))
    }
}

fn options(url: &Url) -> anyhow::Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url.as_str()).map_err(|_| anyhow!("not a PostgreSQL URL"))?;
    // The name by which `chain` leaves our own sessions out.
    Ok(options.application_name("orders-demo"))
}

async fn connect(url: &Url) -> anyhow::Result<PgConnection> {
    let options = options(url)?;
    tokio::time::timeout(ANSWER, PgConnection::connect_with(&options))
        .await
        .map_err(|_| anyhow!("no answer within {ANSWER:?}"))?
        .map_err(Into::into)
}

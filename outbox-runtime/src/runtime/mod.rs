//! Putting it together: one call starts relays and consumers.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod bindings;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod bootstrap;
mod builder;
mod check;
mod database;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod engine;
mod env;
mod explain;
pub(crate) mod health;
#[cfg(all(feature = "rabbitmq", any(feature = "postgres", feature = "sqlite")))]
mod links;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod listen;
mod near;
mod options;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod pools;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod prepare;
pub(crate) mod retention;
mod running;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod setup;
mod signals;
#[cfg(feature = "sqlite")]
mod sqlite;
pub(crate) mod supervise;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod vacuum;

pub use self::builder::RuntimeBuilder;
pub use self::database::Database;
pub use self::health::{ComponentHealth, Health};
pub use self::options::{ConsumerOptions, Migrations, Role};
pub use self::retention::{Archive, Retention};
pub use self::running::Runtime;

use crate::error::Result;

/// Configures from the environment, starts, waits for SIGTERM or SIGINT, and shuts down in order: the whole `main` of a service.
///
/// It needs `DATABASE_URL`, and `AMQP_URL` or `OUTBOX_BROKER=database`. See [`RuntimeBuilder::from_env`] for the other variables.
///
/// ```no_run
/// # extern crate outbox_runtime as outbox;
/// #[tokio::main]
/// async fn main() -> outbox::Result<()> {
///     outbox::runtime::run().await
/// }
/// ```
///
/// # Errors
/// A [`StartError`](crate::StartError) with every problem at once.
pub async fn run() -> Result<()> {
    builder().from_env()?.start().await?.run().await
}

/// The builder of a [`Runtime`].
pub fn builder() -> RuntimeBuilder {
    RuntimeBuilder::new()
}

/// Brings the tables in this database up to date: for services that run with `Migrations::Check` or `Off`.
///
/// # Errors
/// If the database refuses. The schema is then as it was before.
pub async fn migrate<DB: crate::Store>(pool: &sqlx::Pool<DB>) -> Result<()> {
    let mut session = crate::store::session::Session::writer(pool).await?;
    DB::migrate(session.connection()?).await.map_err(|error| match error {
        sqlx::migrate::MigrateError::Execute(error) | sqlx::migrate::MigrateError::ExecuteMigration(error, _) => {
            match error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() {
                // A statement that is prepared twice, or never: only a pooler does that.
                code @ Some("42P05" | "26000") => crate::Error::forced(format!(
                    "the tables could not be brought up to date: a pooler gives its sessions to another client after each transaction, and prepared statements do not survive it ({error}); {}",
                    DB::cure(code)
                )),
                _ => crate::Error::database("bringing the tables up to date", error),
            }
        }
        other => crate::Error::forced(format!("the tables could not be brought up to date: {other}")),
    })?;
    session.release();
    Ok(())
}

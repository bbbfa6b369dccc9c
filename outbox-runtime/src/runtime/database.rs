//! The database that a runtime works with: a pool of the service's, or a URL.

use std::fmt;

use crate::error::StartProblem;
use crate::handler::DatabaseKind;

/// A database.
#[derive(Clone)]
#[non_exhaustive]
pub enum Database {
    /// A pool of the service's own. Handlers run on it; the relay opens a small pool of its own with the same options.
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
    /// A pool on a SQLite file. The runtime opens pools of its own on the same file, with the same options.
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::SqlitePool),
    /// A URL: `postgres://user:password@host/database`, or `sqlite://path/to/file.db?mode=rwc`.
    Url(String),
}

impl fmt::Debug for Database {
    /// Without URL and options: they have a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => f.write_str("Postgres(..)"),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => f.write_str("Sqlite(..)"),
            Self::Url(_) => f.write_str("Url(..)"),
        }
    }
}

#[cfg(feature = "postgres")]
impl From<sqlx::PgPool> for Database {
    fn from(pool: sqlx::PgPool) -> Self {
        Self::Postgres(pool)
    }
}

#[cfg(feature = "postgres")]
impl From<&sqlx::PgPool> for Database {
    fn from(pool: &sqlx::PgPool) -> Self {
        Self::Postgres(pool.clone())
    }
}

#[cfg(feature = "sqlite")]
impl From<sqlx::SqlitePool> for Database {
    fn from(pool: sqlx::SqlitePool) -> Self {
        Self::Sqlite(pool)
    }
}

#[cfg(feature = "sqlite")]
impl From<&sqlx::SqlitePool> for Database {
    fn from(pool: &sqlx::SqlitePool) -> Self {
        Self::Sqlite(pool.clone())
    }
}

/// Which kind of database it is; an error for a URL that this build cannot use.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) fn kind(database: &Database) -> Result<DatabaseKind, StartProblem> {
    match database {
        #[cfg(feature = "postgres")]
        Database::Postgres(_) => Ok(DatabaseKind::Postgres),
        #[cfg(feature = "sqlite")]
        Database::Sqlite(_) => Ok(DatabaseKind::Sqlite),
        Database::Url(url) => check_scheme("DATABASE_URL", url),
    }
}

/// Reads the kind of database off a URL.
pub(super) fn check_scheme(setting: &str, url: &str) -> Result<DatabaseKind, StartProblem> {
    let example = "postgres://user:password@host:5432/database, or sqlite://path/to/file.db?mode=rwc";
    let missing = |name: &str, feature: &str| {
        StartProblem::new(
            setting,
            format!("is a {name} URL, and this build has no {name}"),
            format!("switch it on: cargo add outbox -F {feature}"),
        )
    };
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") if cfg!(feature = "postgres") => Ok(DatabaseKind::Postgres),
        Some("postgres" | "postgresql") => Err(missing("PostgreSQL", "postgres")),
        Some("sqlite") if cfg!(feature = "sqlite") => Ok(DatabaseKind::Sqlite),
        Some("sqlite") => Err(missing("SQLite", "sqlite")),
        Some(scheme) if scheme.len() < 20 && scheme.bytes().all(|b| b.is_ascii_alphabetic()) => Err(StartProblem::new(
            setting,
            format!("begins with `{scheme}:`, which is not a database that outbox works with"),
            format!("write it like this: {example}"),
        )),
        _ => Err(StartProblem::new(setting, "is not a URL", format!("write it like this: {example}"))),
    }
}

//! The database that a runtime works with: a pool of the service's, or a URL.

use std::fmt;

use crate::error::StartProblem;

/// A database.
#[derive(Clone)]
#[non_exhaustive]
pub enum Database {
    /// A pool of the service's own. Handlers run on it; the relay opens a small pool of its own with the same options.
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
    /// A URL: `postgres://user:password@host/database`.
    Url(String),
}

impl fmt::Debug for Database {
    /// Without URL and options: they have a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => f.write_str("Postgres(..)"),
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

/// `host:port/database` of what is tried, for messages.
#[cfg(feature = "postgres")]
pub(super) fn shown(options: &sqlx::postgres::PgConnectOptions) -> String {
    format!(
        "{}@{}:{}/{}",
        options.get_username(),
        options.get_socket().map_or_else(|| options.get_host().to_owned(), |path| path.display().to_string()),
        options.get_port(),
        options.get_database().unwrap_or(options.get_username()),
    )
}

/// Reads a database URL.
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "no database to read it for"))]
pub(super) fn check_scheme(setting: &str, url: &str) -> Result<(), StartProblem> {
    let example = "postgres://user:password@host:5432/database";
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") if cfg!(feature = "postgres") => Ok(()),
        Some("postgres" | "postgresql") => Err(StartProblem::new(
            setting,
            "is a PostgreSQL URL, and this build has no PostgreSQL",
            "switch it on: cargo add outbox -F postgres",
        )),
        Some(scheme) if scheme.len() < 20 && scheme.bytes().all(|b| b.is_ascii_alphabetic()) => Err(StartProblem::new(
            setting,
            format!("begins with `{scheme}:`, which is not a database that outbox works with"),
            format!("write it like this: {example}"),
        )),
        _ => Err(StartProblem::new(setting, "is not a URL", format!("write it like this: {example}"))),
    }
}

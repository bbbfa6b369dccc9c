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
        Database::Url(url) => kind_of_url("DATABASE_URL", url, Compiled::HERE),
    }
}

/// The databases of a build.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compiled {
    postgres: bool,
    sqlite: bool,
}

impl Compiled {
    /// This build.
    pub(super) const HERE: Self = Self { postgres: cfg!(feature = "postgres"), sqlite: cfg!(feature = "sqlite") };
}

/// Reads the kind of database off a URL.
pub(super) fn kind_of_url(setting: &str, url: &str, compiled: Compiled) -> Result<DatabaseKind, StartProblem> {
    let example = "postgres://user:password@host:5432/database, or sqlite://path/to/file.db?mode=rwc";
    let if_compiled = |kind: DatabaseKind, compiled: bool, feature: &str| {
        if compiled {
            return Ok(kind);
        }
        Err(StartProblem::new(
            setting,
            format!("is a {kind} URL, and this build has no {kind}"),
            format!("switch it on: cargo add outbox -F {feature}"),
        ))
    };
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => if_compiled(DatabaseKind::Postgres, compiled.postgres, "postgres"),
        Some("sqlite") => if_compiled(DatabaseKind::Sqlite, compiled.sqlite, "sqlite"),
        Some(scheme) if scheme.len() < 20 && scheme.bytes().all(|b| b.is_ascii_alphabetic()) => Err(StartProblem::new(
            setting,
            format!("begins with `{scheme}:`, which is not a database that outbox works with"),
            format!("write it like this: {example}"),
        )),
        _ => Err(StartProblem::new(setting, "is not a URL", format!("write it like this: {example}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_a_database_that_is_not_compiled_in_names_the_feature() {
        let (postgres, sqlite) = (Some(DatabaseKind::Postgres), Some(DatabaseKind::Sqlite));
        let table = [
            ("postgres://localhost/x", true, false, postgres, ""),
            ("postgresql://localhost/x", true, true, postgres, ""),
            ("sqlite://x.db", false, true, sqlite, ""),
            ("sqlite:x.db", true, true, sqlite, ""),
            ("postgres://user:secret@localhost/x", false, true, None, "cargo add outbox -F postgres"),
            ("sqlite://x.db", true, false, None, "cargo add outbox -F sqlite"),
            ("mysql://user:secret@localhost/x", true, true, None, "`mysql:`"),
            ("secret", true, true, None, "is not a URL"),
            ("sec-ret://x", true, true, None, "is not a URL"),
        ];
        for (url, postgres, sqlite, want, said) in table {
            match kind_of_url("DATABASE_URL", url, Compiled { postgres, sqlite }) {
                Ok(kind) => assert_eq!(Some(kind), want, "{url}"),
                Err(problem) => {
                    let text = format!("{} {} {}", problem.subject, problem.problem, problem.cure);
                    assert!(want.is_none() && text.contains(said) && text.starts_with("DATABASE_URL"), "{url}: {text}");
                    assert!(!text.contains("secret"), "{text}");
                }
            }
        }
    }
}

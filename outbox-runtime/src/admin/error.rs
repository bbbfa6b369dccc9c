//! Why a call did not do what was asked.

use std::fmt;

use crate::admin::{FilterProblem, Report};
use crate::store::Store;

/// Why a call of [`Admin`](crate::admin::Admin) failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum AdminError {
    /// What was asked for does not fit. Nothing was sent to the database.
    Invalid {
        /// All that is wrong.
        problems: Vec<FilterProblem>,
    },
    /// The tables are not there, or those of an older version are.
    Tables(sqlx::Error),
    /// The database refused or was lost. Nothing was changed.
    Database {
        /// What was being done.
        doing: &'static str,
        /// What the database said.
        source: sqlx::Error,
    },
    /// The database refused or was lost during an action. What is in the report is durable.
    Interrupted {
        /// What was done before.
        report: Box<Report>,
        /// The rows for which the answer of the database is missing: each was changed or not. Asking again is safe: what was done is not done twice.
        unsure: Vec<String>,
        /// What the database said.
        source: sqlx::Error,
    },
}

impl AdminError {
    pub(super) fn invalid(problems: Vec<FilterProblem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self::Invalid { problems }) }
    }

    pub(super) fn database<DB: Store>(doing: &'static str, source: sqlx::Error) -> Self {
        if DB::lacks_tables(&source) { Self::Tables(source) } else { Self::Database { doing, source } }
    }
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { problems } => {
                for (i, problem) in problems.iter().enumerate() {
                    write!(f, "{}{problem}", if i == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::Tables(_) => f.write_str(
                "the tables of outbox are missing in this database or schema, or are those of an older version: run `outbox::migrate(&pool)` or start the runtime once, and check `search_path`",
            ),
            Self::Database { doing, .. } => write!(f, "the database failed while {doing}; nothing was changed"),
            Self::Interrupted { report, unsure, .. } => write!(
                f,
                "the database failed after {} rows were done; it is not known whether {} more rows were changed: do it again for them",
                report.done(),
                unsure.len()
            ),
        }
    }
}

impl std::error::Error for AdminError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Invalid { problems } => problems.first().map(|problem| problem as _),
            Self::Tables(source) | Self::Database { source, .. } | Self::Interrupted { source, .. } => Some(source),
        }
    }
}

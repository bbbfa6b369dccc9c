//! Where to listen, and why that ends.

use std::fmt;
use std::time::Duration;

use sqlx::{Connection, Pool};

use crate::store::Store;

/// Where a listener connects, and who speaks to it when it is tried.
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only PostgreSQL notifies"))]
pub struct ListenFrom<DB: Store> {
    /// The relay's pool.
    pub(crate) pool: Pool<DB>,
    /// The listener's own connection; with a password.
    pub(crate) options: <DB::Connection as Connection>::Options,
}

impl<DB: Store> fmt::Debug for ListenFrom<DB> {
    /// Without options: they have a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListenFrom(..)")
    }
}

/// Why a listener hears nothing any more.
#[derive(Debug)]
pub enum Deaf {
    /// The connection is lost, or there is none.
    Lost(sqlx::Error),
    /// What was said was heard before, and is not any more.
    Silent,
    /// What was said was never heard, though the connection works.
    Unheard,
    /// On this database nobody speaks.
    Never,
}

impl fmt::Display for Deaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(error) => error.fmt(f),
            Self::Silent => f.write_str("what is said does not arrive any more"),
            Self::Unheard => f.write_str(
                "LISTEN works and nothing is heard: a connection pooler that hands connections out by transaction stands in between, or the listener's URL leads to another database",
            ),
            Self::Never => f.write_str("this database has no notifications"),
        }
    }
}

impl Deaf {
    /// How long it is worth waiting at least before the next try.
    pub(crate) fn pause(&self) -> Duration {
        match self {
            // It stays so until somebody changes the configuration, and each try leaves a LISTEN on a pooled connection.
            Self::Unheard => Duration::from_secs(60),
            Self::Never => Duration::from_secs(3600),
            Self::Lost(_) | Self::Silent => Duration::ZERO,
        }
    }
}

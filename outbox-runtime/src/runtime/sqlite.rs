//! Pools on SQLite.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::error::StartProblem;
use crate::runtime::Database;
use crate::runtime::pools::Pools;

/// One of them writes; the others read.
const SERVICE_CONNECTIONS: u32 = 4;
const RELAY_CONNECTIONS: u32 = 3;
/// How long a transaction of a user who has the file is waited for: shorter than a statement may take, so that it is tried again.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two pools of our own on the same file, with the options of the service's: what handlers commit must be on the disk before it is acked, and their
/// transactions are watched in ways that must not reach the service's connections.
pub(super) fn pools(database: Database) -> Result<Pools<Sqlite>, StartProblem> {
    let options = match database {
        Database::Sqlite(pool) => SqliteConnectOptions::clone(&pool.connect_options()),
        Database::Url(text) => SqliteConnectOptions::from_str(&text).map_err(|error| {
            StartProblem::new(
                "DATABASE_URL",
                format!("is not a SQLite URL: {error}"),
                "write it like this: sqlite://path/to/file.db?mode=rwc (`mode=rwc` creates the file if there is none)",
            )
        })?,
        #[cfg(feature = "postgres")]
        Database::Postgres(_) => return Err(StartProblem::new("database", "is not SQLite", "give it a SQLite pool")),
    };
    let name = options.get_filename().to_string_lossy().into_owned();
    if name.is_empty() || name == ":memory:" || name.starts_with("file:sqlx-in-memory") {
        return Err(StartProblem::new(
            "DATABASE_URL",
            "is a SQLite database in memory: events would be lost with the process, and each connection would see another one",
            "use a file: sqlite://path/to/file.db?mode=rwc",
        ));
    }
    let options =
        options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full).busy_timeout(PATIENCE);
    let pool = |connections| {
        SqlitePoolOptions::new()
            .min_connections(0)
            .max_connections(connections)
            .acquire_timeout(Duration::from_secs(10))
            .connect_lazy_with(options.clone())
    };
    Ok(Pools {
        service: pool(SERVICE_CONNECTIONS),
        own: true,
        relay: pool(RELAY_CONNECTIONS),
        shown: format!("SQLite file {name:?}"),
        warns_of_size: false,
    })
}

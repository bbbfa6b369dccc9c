//! Pools on SQLite.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::error::StartProblem;
use crate::runtime::Database;
use crate::runtime::pools::Pools;

/// One of them writes; the others read.
const SERVICE_CONNECTIONS: u32 = 4;
const RELAY_CONNECTIONS: u32 = 3;
/// How long a transaction of a user who has the file is waited for: shorter than any deadline of the engine, so that the answer is that the file
/// is locked, and not that there is none.
const PATIENCE: Duration = Duration::from_secs(8);

/// Two pools of our own on the same file, with the options of the service's: what handlers commit must be on the disk before it is acked, and their
/// transactions are watched in ways that must not reach the service's connections.
pub(super) fn pools(database: Database) -> Result<Pools<Sqlite>, StartProblem> {
    let (options, creates, in_memory) = match database {
        Database::Sqlite(pool) => (SqliteConnectOptions::clone(&pool.connect_options()), false, false),
        Database::Url(text) => {
            let options = SqliteConnectOptions::from_str(&text).map_err(|error| {
                StartProblem::new(
                    "DATABASE_URL",
                    format!("is not a SQLite URL: {error}"),
                    "write it like this: sqlite://path/to/file.db?mode=rwc (`mode=rwc` creates the file if there is none)",
                )
            })?;
            let mode = |mode: &str| text.split(['?', '&']).skip(1).any(|parameter| parameter == mode);
            (options, mode("mode=rwc"), mode("mode=memory"))
        }
        #[cfg(feature = "postgres")]
        Database::Postgres(_) => return Err(StartProblem::new("database", "is not SQLite", "give it a SQLite pool")),
    };
    let name = options.get_filename().to_string_lossy().into_owned();
    if in_memory || name.is_empty() || name == ":memory:" || name.starts_with("file:sqlx-in-memory") {
        return Err(StartProblem::new(
            "DATABASE_URL",
            "is a SQLite database in memory: events would be lost with the process, and each connection would see another one",
            "use a file: sqlite://path/to/file.db?mode=rwc",
        ));
    }
    let file = options.get_filename().to_owned();
    if file.exists() && !file.is_file() {
        let problem = format!("SQLite file {name:?}: it is a directory or a device, and not a regular file");
        return Err(StartProblem::new("DATABASE_URL", problem, "correct the path"));
    }
    if creates && !file.exists() {
        // An empty file is an empty database. Later connections must not make one: a file that vanished under a service is an error.
        let created = std::fs::OpenOptions::new().create(true).append(true).open(&file);
        created.map_err(|error| {
            let cure = "correct the path, and see that this user may write in its directory";
            StartProblem::new("DATABASE_URL", format!("SQLite file {name:?}: it cannot be created: {error}"), cure)
        })?;
    }
    let options = if file.exists() { options.create_if_missing(false) } else { options };
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
        own_sessions: Arc::default(),
        room: None,
    })
}

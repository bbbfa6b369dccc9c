//! `BEGIN IMMEDIATE` for a service's own code.

use std::time::Duration;

use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio::time::Instant;

use crate::store::{Condition, Store as _};

/// How long another process, or a transaction that did not begin here, may keep the file locked.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn begin_for_user(pool: &SqlitePool) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match pool.begin_with("BEGIN IMMEDIATE").await {
            Err(error) if Sqlite::condition(&error) == Some(Condition::Conflict) && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            begun => return begun,
        }
    }
}

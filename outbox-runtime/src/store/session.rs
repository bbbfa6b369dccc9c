//! A pooled connection that goes back to its pool only when it is known to be clean.

use std::time::Duration;

use sqlx::Pool;
use sqlx::pool::PoolConnection;

use crate::store::{Store, Turn};

/// A connection of a pool. Dropped without [`release`](Self::release) — a cancelled future, a deadline, a panic — it is closed hard and
/// never seen again by the pool: a half-begun transaction cannot meet its next borrower.
pub(crate) struct Session<DB: Store> {
    connection: Option<PoolConnection<DB>>,
    /// Given up after the connection is: declared after it.
    _turn: Turn,
}

impl<DB: Store> Session<DB> {
    /// Takes a connection to read with, within the pool's own `acquire_timeout`.
    pub(crate) async fn reader(pool: &Pool<DB>) -> Result<Self, sqlx::Error> {
        Ok(Self { connection: Some(pool.acquire().await?), _turn: Turn::free() })
    }

    /// Takes a connection to write with: first the turn, however long the others take, then the connection, so that whoever waits for a turn
    /// keeps no connection from those who have one.
    pub(crate) async fn writer(pool: &Pool<DB>) -> Result<Self, sqlx::Error> {
        let turn = DB::turn(pool).await;
        Self::with_turn(pool, turn).await
    }

    /// Takes a connection for whoever has the turn already.
    pub(crate) async fn with_turn(pool: &Pool<DB>, turn: Turn) -> Result<Self, sqlx::Error> {
        Ok(Self { connection: Some(pool.acquire().await?), _turn: turn })
    }

    /// The connection.
    pub(crate) fn connection(&mut self) -> Result<&mut DB::Connection, sqlx::Error> {
        self.connection.as_deref_mut().ok_or(sqlx::Error::PoolClosed)
    }

    /// Gives the connection back to its pool.
    pub(crate) fn release(mut self) {
        drop(self.connection.take());
    }

    /// Gives it back after success, closes it hard after a failure.
    pub(crate) fn finish<T>(self, result: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        if result.is_ok() {
            self.release();
        }
        result
    }
}

impl<DB: Store> Drop for Session<DB> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}

/// A statement with a deadline. After a deadline the connection must not be used again: drop the [`Session`].
pub(crate) async fn within<T, E: From<sqlx::Error>>(
    deadline: Duration,
    statement: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match tokio::time::timeout(deadline, statement).await {
        Ok(result) => result,
        Err(_) => Err(sqlx::Error::Io(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            format!("no answer from the database within {} s", deadline.as_secs_f32()),
        ))
        .into()),
    }
}

//! Beginning a transaction that will write.

use sqlx::{Pool, Transaction};

use crate::store::Store;

/// Begins a transaction for a business change and its events.
///
/// On SQLite it is `BEGIN IMMEDIATE`, in its turn: a transaction that begins to write half-way (`pool.begin()`) may find that somebody else has
/// written since, and fails with `SQLITE_BUSY` at a point where only a rollback helps. This one waits at its beginning, in order with the relay and
/// the handlers of this process. On PostgreSQL it is the same as `pool.begin()`.
///
/// ```no_run
/// # extern crate outbox_runtime as outbox;
/// # #[cfg(feature = "sqlite")]
/// # async fn order(pool: sqlx::SqlitePool) -> Result<(), sqlx::Error> {
/// let mut tx = outbox::begin(&pool).await?;
/// sqlx::query("INSERT INTO orders (id) VALUES ($1)").bind("42").execute(&mut *tx).await?;
/// // order_created.enqueue(&mut tx).await?;
/// tx.commit().await
/// # }
/// ```
///
/// # Errors
/// If the database cannot be reached; on SQLite also if another process keeps the file locked for a minute.
///
/// # Cancel safety
/// It can be dropped at any time: nothing stays open on the pooled connection.
pub async fn begin<DB: Store>(pool: &Pool<DB>) -> Result<Transaction<'static, DB>, sqlx::Error> {
    let pool = pool.clone();
    // A task of its own: a BEGIN that is dropped half-way may leave the transaction open on a connection that goes back to its pool.
    let begun = tokio::spawn(async move {
        let _turn = DB::turn(&pool).await;
        DB::begin_for_user(&pool).await
    });
    begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
}

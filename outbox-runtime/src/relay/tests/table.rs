//! What the model needs of a database beside the statements under test.

use std::time::Duration;

use sqlx::Pool;
use sqlx::pool::PoolConnection;

use crate::store::Store;

/// A row as the model looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) event_id: String,
    pub(super) status: String,
    pub(super) skipped: bool,
    pub(super) locked_by: Option<String>,
    pub(super) unknown_count: i64,
}

pub(super) trait Table: Store {
    /// What keeps the database of a test.
    type World;

    fn pool(world: &Self::World) -> &Pool<Self>;

    /// A text of several statements, or one without arguments.
    async fn run(connection: &mut Self::Connection, sql: &'static str);

    async fn rows(connection: &mut Self::Connection) -> Vec<Seen>;

    /// Event ids in the queue, in its order, and nothing is left in it.
    async fn take_queue(connection: &mut Self::Connection) -> Vec<String>;

    async fn delete(connection: &mut Self::Connection, event_id: &str);

    /// Every lease has run out.
    const EXPIRE: &'static str;
    /// Whatever waits for a time is due.
    const TIME_PASSES: &'static str;
    const EMPTY: &'static str = "DELETE FROM outbox_messages; DELETE FROM outbox_sequences; DELETE FROM queue_bindings; DELETE FROM queue_messages";
    const BIND: &'static str =
        "DELETE FROM queue_bindings; INSERT INTO queue_bindings (queue, exchange, binding_key) VALUES ('q', 'x', '#')";
    const UNBIND: &'static str = "DELETE FROM queue_bindings";
    const ROWS: &'static str = "SELECT event_id, status, skipped, locked_by, CAST(unknown_count AS bigint) AS unknown_count FROM outbox_messages";
    const QUEUE: &'static str = "SELECT event_id FROM queue_messages ORDER BY message_id";
}

pub(super) const LEASE: Duration = Duration::from_secs(3600);

pub(super) async fn connection<DB: Table>(world: &DB::World) -> PoolConnection<DB> {
    DB::pool(world).acquire().await.unwrap()
}

/// The same for every database, but not writable for all of them at once.
macro_rules! table {
    () => {
        async fn run(connection: &mut Self::Connection, sql: &'static str) {
            sqlx::raw_sql(sql).execute(connection).await.unwrap();
        }

        async fn rows(connection: &mut Self::Connection) -> Vec<Seen> {
            let rows = sqlx::query(Self::ROWS).fetch_all(connection).await.unwrap();
            rows.iter()
                .map(|row| Seen {
                    event_id: row.get("event_id"),
                    status: row.get("status"),
                    skipped: row.get("skipped"),
                    locked_by: row.get("locked_by"),
                    unknown_count: row.get("unknown_count"),
                })
                .collect()
        }

        async fn take_queue(connection: &mut Self::Connection) -> Vec<String> {
            let ids = sqlx::query_scalar(Self::QUEUE).fetch_all(&mut *connection).await.unwrap();
            sqlx::raw_sql("DELETE FROM queue_messages").execute(connection).await.unwrap();
            ids
        }

        async fn delete(connection: &mut Self::Connection, event_id: &str) {
            sqlx::query("DELETE FROM outbox_messages WHERE event_id = $1")
                .bind(event_id)
                .execute(connection)
                .await
                .unwrap();
        }
    };
}
pub(super) use table;

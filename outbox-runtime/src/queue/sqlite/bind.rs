//! Bindings, and what is in a queue.

use sqlx::SqliteConnection;

use crate::broker::topology::Binding;
use crate::outbox::STATS_BOUND;
use crate::store::sqlite::sql::array;

const BIND: &str = "
INSERT INTO queue_bindings (queue, exchange, binding_key)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1) WHERE true
ON CONFLICT (queue, exchange, binding_key) DO NOTHING";

const UNBOUND: &str = "
SELECT value ->> 0 AS queue, value ->> 1 AS exchange, value ->> 2 AS binding_key FROM json_each(?1)
EXCEPT SELECT queue, exchange, binding_key FROM queue_bindings";

pub(crate) const KNOWN: &str = "
SELECT EXISTS (SELECT 1 FROM queue_bindings WHERE queue = ?1) OR EXISTS (SELECT 1 FROM queue_messages WHERE queue = ?1)";

pub(crate) const DEPTH: &str = "SELECT count(*) FROM (SELECT 1 FROM queue_messages WHERE queue = ?1 LIMIT ?2)";

fn rows(bindings: &[Binding]) -> Result<String, sqlx::Error> {
    array(&bindings.iter().map(|binding| [&binding.queue, &binding.exchange, &binding.key]).collect::<Vec<_>>())
}

pub(crate) async fn bind(connection: &mut SqliteConnection, bindings: &[Binding]) -> Result<(), sqlx::Error> {
    sqlx::query(BIND).bind(rows(bindings)?).execute(connection).await?;
    Ok(())
}

pub(crate) async fn unbound(
    connection: &mut SqliteConnection,
    bindings: &[Binding],
) -> Result<Vec<Binding>, sqlx::Error> {
    let missing: Vec<(String, String, String)> =
        sqlx::query_as(UNBOUND).bind(rows(bindings)?).fetch_all(connection).await?;
    Ok(missing.into_iter().map(|(queue, exchange, key)| Binding { exchange, queue, key }).collect())
}

pub(crate) async fn queue_known(connection: &mut SqliteConnection, queue: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(KNOWN).bind(queue).fetch_one(connection).await
}

pub(crate) async fn queue_depth(connection: &mut SqliteConnection, queue: &str) -> Result<u64, sqlx::Error> {
    let count: i64 = sqlx::query_scalar(DEPTH).bind(queue).bind(STATS_BOUND).fetch_one(connection).await?;
    Ok(u64::try_from(count).unwrap_or(0))
}

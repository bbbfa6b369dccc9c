//! Bindings, and what is in a queue.

use sqlx::PgConnection;

use crate::broker::topology::Binding;
use crate::outbox::STATS_BOUND;

const BIND: &str = "
INSERT INTO queue_bindings (queue, exchange, binding_key)
SELECT queue, exchange, binding_key FROM unnest($1::text[], $2::text[], $3::text[]) AS new (queue, exchange, binding_key)
ORDER BY queue, exchange, binding_key
ON CONFLICT (queue, exchange, binding_key) DO NOTHING";

const UNBOUND: &str = "
SELECT queue, exchange, binding_key FROM unnest($1::text[], $2::text[], $3::text[]) AS new (queue, exchange, binding_key)
EXCEPT SELECT queue, exchange, binding_key FROM queue_bindings";

const KNOWN: &str = "
SELECT EXISTS (SELECT FROM queue_bindings WHERE queue = $1) OR EXISTS (SELECT FROM queue_messages WHERE queue = $1)";

const DEPTH: &str = "SELECT count(*) FROM (SELECT FROM queue_messages WHERE queue = $1 LIMIT $2) AS n";

pub(crate) async fn bind(connection: &mut PgConnection, bindings: &[Binding]) -> Result<(), sqlx::Error> {
    let column = |value: fn(&Binding) -> &str| bindings.iter().map(value).collect::<Vec<_>>();
    sqlx::query(BIND)
        .bind(column(|b| &b.queue))
        .bind(column(|b| &b.exchange))
        .bind(column(|b| &b.key))
        .execute(connection)
        .await?;
    Ok(())
}

pub(crate) async fn unbound(connection: &mut PgConnection, bindings: &[Binding]) -> Result<Vec<Binding>, sqlx::Error> {
    let column = |value: fn(&Binding) -> &str| bindings.iter().map(value).collect::<Vec<_>>();
    let rows: Vec<(String, String, String)> = sqlx::query_as(UNBOUND)
        .bind(column(|b| &b.queue))
        .bind(column(|b| &b.exchange))
        .bind(column(|b| &b.key))
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(|(queue, exchange, key)| Binding { exchange, queue, key }).collect())
}

pub(crate) async fn queue_known(connection: &mut PgConnection, queue: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(KNOWN).bind(queue).fetch_one(connection).await
}

pub(crate) async fn queue_depth(connection: &mut PgConnection, queue: &str) -> Result<u64, sqlx::Error> {
    let count: i64 = sqlx::query_scalar(DEPTH).bind(queue).bind(STATS_BOUND).fetch_one(connection).await?;
    Ok(u64::try_from(count).unwrap_or(0))
}

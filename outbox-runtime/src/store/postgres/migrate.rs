//! The schema: our own migrations table, one transaction, one lock that a pooler cannot orphan.

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Connection, PgConnection};

use crate::store::migrator;

/// Version, name, SQL: in the order in which they run. A test compares this table with the directory.
pub(crate) const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "outbox", include_str!("../../../migrations/postgres/0001_outbox.sql")),
    (2, "database_broker", include_str!("../../../migrations/postgres/0002_database_broker.sql")),
    (3, "relay", include_str!("../../../migrations/postgres/0003_relay.sql")),
    (4, "outbox_enqueue", include_str!("../../../migrations/postgres/0004_outbox_enqueue.sql")),
];

/// The key of the transaction-scoped advisory lock, together with the schema's oid.
const LOCK: i32 = 0x6f75_7462;

fn migrator() -> Migrator {
    let mut migrator = migrator::migrator(MIGRATIONS);
    // A newer version may have been here before: an older one must go on working beside it.
    migrator.set_ignore_missing(true);
    migrator
}

pub(super) async fn migrate(connection: &mut PgConnection) -> Result<(), MigrateError> {
    let mut tx = connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1, COALESCE(to_regnamespace(current_schema())::oid::int8 % 2147483647, 0)::int4)")
        .bind(LOCK)
        .execute(&mut *tx)
        .await?;
    migrator().run_direct(None, &mut *tx, false).await?;
    tx.commit().await?;
    Ok(())
}

pub(super) async fn missing(connection: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    let known: Option<String> =
        sqlx::query_scalar("SELECT to_regclass('_outbox_migrations')::text").fetch_one(&mut *connection).await?;
    let applied: Vec<i64> = if known.is_some() {
        sqlx::query_scalar("SELECT version FROM _outbox_migrations WHERE success").fetch_all(connection).await?
    } else {
        Vec::new()
    };
    Ok(MIGRATIONS
        .iter()
        .filter(|(version, _, _)| !applied.contains(version))
        .map(|(version, name, _)| format!("{version:04}_{name}"))
        .collect())
}

pub(super) async fn remember(
    connection: &mut PgConnection,
    key: &'static str,
    value: &str,
) -> Result<String, sqlx::Error> {
    sqlx::query("INSERT INTO outbox_settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING")
        .bind(key)
        .bind(value)
        .execute(&mut *connection)
        .await?;
    sqlx::query_scalar("SELECT value FROM outbox_settings WHERE key = $1").bind(key).fetch_one(connection).await
}

pub(super) async fn replace_setting(
    connection: &mut PgConnection,
    key: &'static str,
    from: &str,
    to: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE outbox_settings SET value = $3 WHERE key = $1 AND value = $2")
        .bind(key)
        .bind(from)
        .bind(to)
        .execute(connection)
        .await?;
    Ok(())
}

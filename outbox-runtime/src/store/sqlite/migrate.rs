//! The schema: WAL mode, and our own migrations table, in one transaction.

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Connection, SqliteConnection};

use crate::store::migrator;

/// Version, name, SQL: in the order in which they run. A test compares this table with the directory.
pub(crate) const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "outbox", include_str!("../../../migrations/sqlite/0001_outbox.sql")),
    (2, "relay", include_str!("../../../migrations/sqlite/0002_relay.sql")),
    (3, "numbers", include_str!("../../../migrations/sqlite/0003_numbers.sql")),
];

fn migrator() -> Migrator {
    let mut migrator = migrator::migrator(MIGRATIONS);
    // One process owns the file: what a newer version has written, an older one must not touch.
    migrator.set_ignore_missing(false);
    migrator
}

pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    write_ahead(connection).await?;
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    migrator().run_direct(None, &mut *tx, false).await?;
    tx.commit().await?;
    Ok(())
}

/// With a write-ahead log nobody who reads keeps anybody from writing. The mode is a property of the file and stays; changing it needs the
/// file for oneself, so it is asked for first.
async fn write_ahead(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *connection).await?;
    if mode != "wal" {
        mode = sqlx::query_scalar("PRAGMA journal_mode = WAL").fetch_one(connection).await?;
    }
    if mode == "wal" {
        return Ok(());
    }
    Err(sqlx::Error::Configuration(
        format!(
            "the database stays in journal mode {mode:?}: it must be a file on a local disk that can be in WAL mode"
        )
        .into(),
    ))
}

pub(super) async fn missing(connection: &mut SqliteConnection) -> Result<Vec<String>, sqlx::Error> {
    let known: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1)")
            .bind(migrator::TABLE)
            .fetch_one(&mut *connection)
            .await?;
    let applied: Vec<i64> = if known {
        sqlx::query_scalar("SELECT version FROM _outbox_migrations WHERE success ORDER BY version")
            .fetch_all(connection)
            .await?
    } else {
        Vec::new()
    };
    let missing = MIGRATIONS
        .iter()
        .filter(|(version, _, _)| !applied.contains(version))
        .map(|(version, name, _)| format!("{version:04}_{name}"));
    let newer = applied
        .iter()
        .filter(|version| !MIGRATIONS.iter().any(|(known, _, _)| known == *version))
        .map(|version| format!("unknown migration {version}: this file was written by a newer version"));
    Ok(missing.chain(newer).collect())
}

pub(super) async fn remember(
    connection: &mut SqliteConnection,
    key: &'static str,
    value: &str,
) -> Result<String, sqlx::Error> {
    sqlx::query("INSERT INTO outbox_settings (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING")
        .bind(key)
        .bind(value)
        .execute(&mut *connection)
        .await?;
    sqlx::query_scalar("SELECT value FROM outbox_settings WHERE key = ?1").bind(key).fetch_one(connection).await
}

pub(super) async fn replace_setting(
    connection: &mut SqliteConnection,
    key: &'static str,
    from: &str,
    to: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE outbox_settings SET value = ?3 WHERE key = ?1 AND value = ?2")
        .bind(key)
        .bind(from)
        .bind(to)
        .execute(connection)
        .await?;
    Ok(())
}

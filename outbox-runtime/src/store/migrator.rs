//! sqlx's migrator over the SQL that is compiled in, with a migrations table of our own.

use std::borrow::Cow;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// An application's own `_sqlx_migrations` stays its own.
pub(super) const TABLE: &str = "_outbox_migrations";

/// A migrator of these versions, names and SQL texts. It takes no lock: each database has a better one.
pub(super) fn migrator(migrations: &[(i64, &'static str, &'static str)]) -> Migrator {
    let migrations = migrations
        .iter()
        .map(|(version, name, sql)| {
            Migration::new(
                *version,
                Cow::Borrowed(*name),
                MigrationType::Simple,
                sqlx::AssertSqlSafe(*sql).into_sql_str(),
                false,
            )
        })
        .collect();
    let mut migrator = Migrator::with_migrations(migrations);
    migrator.set_locking(false);
    migrator.dangerous_set_table_name(TABLE);
    migrator
}

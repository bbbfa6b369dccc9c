//! The SQL of the tables, for DBAs who run it themselves.

/// One migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Script {
    /// Its number.
    pub version: i64,
    /// Its name.
    pub name: &'static str,
    /// Its SQL, to be run in one transaction.
    pub sql: &'static str,
}

/// The migrations for PostgreSQL, in the order in which they run.
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// # #[cfg(feature = "postgres")]
/// for script in outbox::migrations::sql() {
///     println!("-- {:04} {}\n{}", script.version, script.name, script.sql);
/// }
/// ```
#[cfg(feature = "postgres")]
pub fn sql() -> Vec<Script> {
    crate::store::postgres::MIGRATIONS
        .iter()
        .map(|(version, name, sql)| Script { version: *version, name, sql })
        .collect()
}

/// The migrations for SQLite, in the order in which they run. The file must be in WAL mode (`PRAGMA journal_mode = WAL`).
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// # #[cfg(feature = "sqlite")]
/// for script in outbox::migrations::sqlite_sql() {
///     println!("-- {:04} {}\n{}", script.version, script.name, script.sql);
/// }
/// ```
#[cfg(feature = "sqlite")]
pub fn sqlite_sql() -> Vec<Script> {
    crate::store::sqlite::MIGRATIONS
        .iter()
        .map(|(version, name, sql)| Script { version: *version, name, sql })
        .collect()
}

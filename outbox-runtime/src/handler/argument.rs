//! Arguments that a handler takes by `&mut`: the connection, the transaction, the collector of events.

use crate::error::HandlerError;
use crate::handler::{DatabaseKind, Emit, Parts};

/// What stands behind `&mut` in a handler's argument list.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `&mut {Self}`",
    label = "not an argument of a handler",
    note = "by `&mut` a handler takes `sqlx::PgConnection`, `sqlx::PgTransaction<'_>`, `sqlx::SqliteConnection`, `sqlx::SqliteTransaction<'_>` or `outbox::Emit`",
    note = "for a pool or a client of your own use `State<T>` and `Runtime::builder().state(value)`"
)]
pub trait CallArgument<'c> {
    /// The database that it belongs to, if it does.
    const DATABASE: Option<DatabaseKind>;

    /// Takes it out of the call.
    ///
    /// # Errors
    /// If it was taken before, or the runtime's database is of another kind; start-up and the macro rule both out.
    fn take<'a, 't>(parts: &mut Parts<'a, 't, 'c>) -> Result<&'a mut Self, HandlerError>
    where
        'c: 'a,
        't: 'a;
}

// Not by a macro: the compiler shows these impls to whoever takes something else.

#[cfg(feature = "postgres")]
fn postgres<'a, 't, 'c>(
    parts: &mut Parts<'a, 't, 'c>,
) -> Result<&'a mut sqlx::Transaction<'c, sqlx::Postgres>, HandlerError> {
    match parts.tx.take() {
        Some(crate::handler::TxRef::Postgres(tx)) => Ok(tx),
        _ => Err(HandlerError::extract("no transaction on PostgreSQL in this call")),
    }
}

#[cfg(feature = "postgres")]
impl<'c> CallArgument<'c> for sqlx::PgConnection {
    const DATABASE: Option<DatabaseKind> = Some(DatabaseKind::Postgres);

    fn take<'a, 't>(parts: &mut Parts<'a, 't, 'c>) -> Result<&'a mut Self, HandlerError>
    where
        'c: 'a,
        't: 'a,
    {
        postgres(parts).map(|tx| &mut **tx)
    }
}

#[cfg(feature = "postgres")]
impl<'c> CallArgument<'c> for sqlx::Transaction<'c, sqlx::Postgres> {
    const DATABASE: Option<DatabaseKind> = Some(DatabaseKind::Postgres);

    fn take<'a, 't>(parts: &mut Parts<'a, 't, 'c>) -> Result<&'a mut Self, HandlerError>
    where
        'c: 'a,
        't: 'a,
    {
        postgres(parts)
    }
}

#[cfg(feature = "sqlite")]
fn sqlite<'a, 't, 'c>(
    parts: &mut Parts<'a, 't, 'c>,
) -> Result<&'a mut sqlx::Transaction<'c, sqlx::Sqlite>, HandlerError> {
    match parts.tx.take() {
        Some(crate::handler::TxRef::Sqlite(tx)) => Ok(tx),
        _ => Err(HandlerError::extract("no transaction on SQLite in this call")),
    }
}

#[cfg(feature = "sqlite")]
impl<'c> CallArgument<'c> for sqlx::SqliteConnection {
    const DATABASE: Option<DatabaseKind> = Some(DatabaseKind::Sqlite);

    fn take<'a, 't>(parts: &mut Parts<'a, 't, 'c>) -> Result<&'a mut Self, HandlerError>
    where
        'c: 'a,
        't: 'a,
    {
        sqlite(parts).map(|tx| &mut **tx)
    }
}

#[cfg(feature = "sqlite")]
impl<'c> CallArgument<'c> for sqlx::Transaction<'c, sqlx::Sqlite> {
    const DATABASE: Option<DatabaseKind> = Some(DatabaseKind::Sqlite);

    fn take<'a, 't>(parts: &mut Parts<'a, 't, 'c>) -> Result<&'a mut Self, HandlerError>
    where
        'c: 'a,
        't: 'a,
    {
        sqlite(parts)
    }
}

impl CallArgument<'_> for Emit {
    const DATABASE: Option<DatabaseKind> = None;

    fn take<'a, 't>(parts: &mut Parts<'a, 't, '_>) -> Result<&'a mut Self, HandlerError>
    where
        't: 'a,
    {
        parts.emit.take().ok_or_else(|| HandlerError::extract("`&mut Emit` is taken twice"))
    }
}

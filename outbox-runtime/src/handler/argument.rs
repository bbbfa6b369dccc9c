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

/// The connection and the transaction of one database.
macro_rules! database_arguments {
    ($feature:literal, $database:ty, $connection:ty, $kind:ident, $name:literal) => {
        #[cfg(feature = $feature)]
        impl<'c> CallArgument<'c> for $connection {
            const DATABASE: Option<DatabaseKind> = Some(DatabaseKind::$kind);

            fn take<'a, 't>(parts: &mut Parts<'a, 't, 'c>) -> Result<&'a mut Self, HandlerError>
            where
                'c: 'a,
                't: 'a,
            {
                <sqlx::Transaction<'c, $database>>::take(parts).map(|tx| &mut **tx)
            }
        }

        #[cfg(feature = $feature)]
        impl<'c> CallArgument<'c> for sqlx::Transaction<'c, $database> {
            const DATABASE: Option<DatabaseKind> = Some(DatabaseKind::$kind);

            fn take<'a, 't>(parts: &mut Parts<'a, 't, 'c>) -> Result<&'a mut Self, HandlerError>
            where
                'c: 'a,
                't: 'a,
            {
                match parts.tx.take() {
                    Some(crate::handler::TxRef::$kind(tx)) => Ok(tx),
                    _ => Err(HandlerError::extract(concat!("no transaction on ", $name, " in this call"))),
                }
            }
        }
    };
}

database_arguments!("postgres", sqlx::Postgres, sqlx::PgConnection, Postgres, "PostgreSQL");
database_arguments!("sqlite", sqlx::Sqlite, sqlx::SqliteConnection, Sqlite, "SQLite");

impl CallArgument<'_> for Emit {
    const DATABASE: Option<DatabaseKind> = None;

    fn take<'a, 't>(parts: &mut Parts<'a, 't, '_>) -> Result<&'a mut Self, HandlerError>
    where
        't: 'a,
    {
        parts.emit.take().ok_or_else(|| HandlerError::extract("`&mut Emit` is taken twice"))
    }
}

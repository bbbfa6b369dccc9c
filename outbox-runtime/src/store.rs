//! What the engine asks of a database. Relay and consumer are generic over it and erased once, in the runtime.

use std::future::Future;

use crate::error::EnqueueError;
use crate::event::draft::Content;

/// A database that can hold the outbox and the inbox. Static functions on a connection; each database has SQL of its own.
///
/// It is implemented for `sqlx::Postgres` (feature `postgres`) and cannot be implemented outside this crate.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database that `outbox` can write to",
    label = "no outbox on this database",
    note = "switch on the feature of your database, e.g. `cargo add outbox -F postgres`"
)]
pub trait Store: sqlx::Database + Sealed {
    /// Writes events, all or none.
    #[doc(hidden)]
    fn insert(
        connection: &mut Self::Connection,
        contents: &[Content],
    ) -> impl Future<Output = Result<(), EnqueueError>> + Send;
}

/// Keeps [`Store`] closed.
#[doc(hidden)]
pub trait Sealed {}

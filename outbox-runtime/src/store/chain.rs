//! The code of a database, or a lost connection, anywhere in the chain of an error.

use std::error::Error;

use sqlx::error::DatabaseError;

use crate::store::Condition;

/// What `of_code` says of the first code in the chain; `E` is the driver's own error, which a handler may return bare.
pub(super) fn condition<E: DatabaseError>(
    error: &(dyn Error + 'static),
    of_code: fn(Option<&str>) -> Option<Condition>,
) -> Option<Condition> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = of_one::<E>(error, of_code) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

fn of_one<E: DatabaseError>(
    error: &(dyn Error + 'static),
    of_code: fn(Option<&str>) -> Option<Condition>,
) -> Option<Condition> {
    if let Some(error) = error.downcast_ref::<sqlx::Error>() {
        return match error {
            sqlx::Error::Database(error) => of_code(error.code().as_deref()),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => Some(Condition::Unavailable),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref::<Box<dyn DatabaseError>>() {
        return of_code(error.code().as_deref());
    }
    error.downcast_ref::<E>().and_then(|error| of_code(error.code().as_deref()))
}

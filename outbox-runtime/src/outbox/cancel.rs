//! Taking an event back before it is published.

use sqlx::Transaction;

use crate::error::Error;
use crate::event::EventId;
use crate::outbox::EventStatus;
use crate::store::Store;

/// What became of a [`cancel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an event that was not cancelled will be published"]
#[non_exhaustive]
pub enum Cancel {
    /// It is deleted in this transaction: once that is committed, it is never published.
    Cancelled,
    /// It is there, and stays.
    #[non_exhaustive]
    TooLate {
        /// Where it is.
        status: EventStatus,
        /// Whether a broker has it or may have it. Of a `Pending` event: a relay sent it and nobody knows whether it arrived, so it will be sent
        /// again.
        may_be_published: bool,
    },
    /// There is no event with this id: it never existed, was cancelled, or was published so long ago that its row is gone.
    Unknown,
}

/// What the row says when it was not deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub(crate) status: EventStatus,
    /// How often nobody knows whether a broker got it.
    pub(crate) unknown_count: i32,
}

/// How often a relay may take the event and give it back in between.
const ROUNDS: usize = 8;

/// Takes an event back in the caller's transaction, unless a relay has it or a broker may have it. If the transaction rolls back, the event is
/// there as before. No relay takes it in between: the row stays locked until the transaction ends.
///
/// The later events of an ordered event's key go on without it; a relay notices within seconds.
///
/// ```no_run
/// # extern crate outbox_runtime as outbox;
/// # #[cfg(feature = "postgres")]
/// # async fn cancel(pool: sqlx::PgPool) -> outbox::Result<()> {
/// use outbox::{Cancel, EventId};
///
/// let reminder = EventId::parse("reminder-42").expect("an id");
/// let mut tx = outbox::begin(&pool).await?;
/// match outbox::cancel(&mut tx, &reminder).await? {
///     Cancel::Cancelled => println!("nobody is reminded"),
///     Cancel::TooLate { status, .. } => println!("too late, it is {status}"),
///     _ => println!("there is no such reminder"),
/// }
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the database refuses or is lost; the caller's transaction is aborted then.
///
/// # Cancel safety
/// Dropped half-way, the event may or may not be deleted in the transaction: roll it back.
pub async fn cancel<DB: Store>(tx: &mut Transaction<'_, DB>, event_id: &EventId) -> Result<Cancel, Error> {
    cancel_on_connection::<DB>(&mut *tx, event_id).await
}

/// [`cancel`] for other ORMs: on a bare connection. Without an open transaction on it the event is gone at once.
///
/// # Errors
/// As [`cancel`].
///
/// # Cancel safety
/// As [`cancel`].
pub async fn cancel_on_connection<DB: Store>(
    connection: &mut DB::Connection,
    event_id: &EventId,
) -> Result<Cancel, Error> {
    decide::<DB>(connection, event_id).await.map_err(|error| Error::database("cancelling an event", error))
}

async fn decide<DB: Store>(connection: &mut DB::Connection, event_id: &EventId) -> Result<Cancel, sqlx::Error> {
    for _ in 0..ROUNDS {
        if DB::cancel(connection, event_id).await? {
            return Ok(Cancel::Cancelled);
        }
        match DB::standing(connection, event_id).await? {
            None => return Ok(Cancel::Unknown),
            // Given back by a relay just now.
            Some(Standing { status: EventStatus::Pending, unknown_count: 0 }) => {}
            Some(Standing { status, unknown_count }) => {
                let may_be_published = match status {
                    EventStatus::Processing | EventStatus::Published => true,
                    EventStatus::Pending | EventStatus::Failed => unknown_count > 0,
                };
                return Ok(Cancel::TooLate { status, may_be_published });
            }
        }
    }
    // Whenever it was tried, a relay had it.
    Ok(Cancel::TooLate { status: EventStatus::Processing, may_be_published: true })
}

//! What an error means for the run that met it: whose fault it is, and what is known after it.

use sqlx::Transaction;

use crate::consumer::attempt::{ENDED, End, Left, ROLLBACK};
use crate::consumer::decide::FailureKind;
use crate::error::{Class, Failure, HandlerError};
use crate::store::session::within;
use crate::store::{Condition, Refused, Store};

/// After a handler's error: whose fault was it?
pub(super) async fn of_handler<DB: Store>(tx: Transaction<'_, DB>, error: &HandlerError) -> Left {
    let text = chain(error);
    let condition = error.error().and_then(DB::condition);
    let clean = within(ROLLBACK, DB::rollback(tx)).await.is_ok();
    let failed = |kind| End::Failed(kind, text.clone());
    let end = match (&error.failure, condition) {
        (_, Some(Condition::IdleInTransaction)) => failed(FailureKind::Error),
        _ if !clean => End::Lost(text.clone()),
        (Failure::Error { .. }, Some(Condition::Conflict)) => End::Conflict(text.clone()),
        (Failure::Error { .. }, Some(Condition::Unavailable)) => failed(FailureKind::Error),
        (Failure::Error { class: Class::Dead, .. }, _) => failed(FailureKind::Dead),
        (Failure::Error { .. } | Failure::Extract(_), _) => failed(FailureKind::Error),
        (Failure::Undecodable(_), _) => failed(FailureKind::Undecodable),
        (Failure::RetryAfter(delay), _) => failed(FailureKind::RetryAfter(*delay)),
        (Failure::Rejected(_), _) => failed(FailureKind::Rejected),
    };
    let suspect = clean && matches!(error.failure, Failure::Error { .. }) && condition == Some(Condition::Unavailable);
    Left { end, clean, suspect }
}

/// An engine statement failed: never the handler's fault.
pub(super) fn of_statement<DB: Store>(error: &sqlx::Error) -> End {
    match DB::condition(error) {
        Some(Condition::Conflict) => End::Conflict(error.to_string()),
        Some(Condition::Unavailable) => End::NotBegun(error.to_string()),
        _ => End::Lost(error.to_string()),
    }
}

/// A commit failed. An answer of the server means that nothing was committed; no answer means that nobody knows.
pub(super) fn of_commit<DB: Store>(refused: Refused) -> End {
    let error = match refused {
        Refused::Aborted => {
            let error = "a statement in the handler failed and its error was ignored: the transaction was aborted, nothing was committed";
            return End::Failed(FailureKind::Aborted, error.to_owned());
        }
        Refused::Ended => return End::Failed(FailureKind::Ended, ENDED.to_owned()),
        Refused::Database(error) => error,
    };
    match (DB::condition(&error), &error) {
        (Some(Condition::Conflict), _) => End::Conflict(error.to_string()),
        (Some(Condition::IdleInTransaction), _) => End::Failed(
            FailureKind::Aborted,
            "the server ended the transaction because it was idle for too long (idle_in_transaction_session_timeout)"
                .to_owned(),
        ),
        (None, sqlx::Error::Database(_)) => End::Failed(FailureKind::Error, format!("the commit failed: {error}")),
        _ => End::Lost(error.to_string()),
    }
}

/// An error and its causes on one line, bounded.
fn chain(error: &HandlerError) -> String {
    const BYTES: usize = 2000;
    let mut text = error.to_string();
    let mut cause = error.error();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
        if text.len() > BYTES {
            break;
        }
    }
    let text = text.replace('\0', "\u{fffd}");
    let mut end = text.len().min(BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

//! What a handler's failure means.

use std::fmt;
use std::time::Duration;

/// Any error, as handlers return it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Whether it makes sense to run the handler again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// Another attempt may succeed.
    Retryable,
    /// No attempt will succeed: the message is Dead at once.
    Dead,
}

/// Implemented by a handler's error type that knows which of its cases are worth a retry. Without it every error is retryable.
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// use outbox::{Class, Classify};
///
/// #[derive(Debug)]
/// enum StockError { UnknownArticle, Locked }
/// impl std::fmt::Display for StockError {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "{self:?}") }
/// }
/// impl std::error::Error for StockError {}
///
/// impl Classify for StockError {
///     fn classify(&self) -> Class {
///         match self { Self::UnknownArticle => Class::Dead, Self::Locked => Class::Retryable }
///     }
/// }
/// ```
pub trait Classify: Into<BoxError> {
    /// What this error means.
    fn classify(&self) -> Class;
}

/// Why a handler did not finish.
pub struct HandlerError {
    pub(crate) failure: Failure,
}

pub(crate) enum Failure {
    /// The handler returned an error.
    Error { error: BoxError, class: Class },
    /// The body does not fit the handler's event type.
    Undecodable(BoxError),
    /// An extractor failed.
    Extract(BoxError),
    /// The handler asked for another run after this time.
    RetryAfter(Duration),
    /// The handler refused the message for good.
    Rejected(String),
}

impl HandlerError {
    /// An error that another attempt may cure.
    pub fn retryable(error: impl Into<BoxError>) -> Self {
        Self { failure: Failure::Error { error: error.into(), class: Class::Retryable } }
    }

    /// An error that no attempt will cure.
    pub fn dead(error: impl Into<BoxError>) -> Self {
        Self { failure: Failure::Error { error: error.into(), class: Class::Dead } }
    }

    /// For an extractor: the body cannot be read; the message is Dead at once.
    pub fn undecodable(error: impl Into<BoxError>) -> Self {
        Self { failure: Failure::Undecodable(error.into()) }
    }

    /// For an extractor: something is missing; counts as a failed attempt.
    pub fn extract(error: impl Into<BoxError>) -> Self {
        Self { failure: Failure::Extract(error.into()) }
    }

    pub(crate) fn error(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.failure {
            Failure::Error { error, .. } | Failure::Undecodable(error) | Failure::Extract(error) => Some(&**error),
            Failure::RetryAfter(_) | Failure::Rejected(_) => None,
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            Failure::Error { .. } => f.write_str("the handler returned an error"),
            Failure::Undecodable(_) => f.write_str("the body does not fit the handler's event type"),
            Failure::Extract(_) => f.write_str("an argument of the handler could not be made"),
            Failure::RetryAfter(delay) => write!(f, "the handler asked for another run after {delay:?}"),
            Failure::Rejected(reason) => write!(f, "the handler refused the message: {reason}"),
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut cause = self.error();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for HandlerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error()
    }
}

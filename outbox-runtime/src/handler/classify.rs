//! Whether an error type says "dead" is asked of the compiler in the expansion: an inherent method with a bound is found before a
//! trait's method of the same name, and passed over where the bound does not hold.

use crate::error::{BoxError, Class, Classify, HandlerError};

/// Wraps a handler's error for the question.
#[derive(Debug)]
pub struct ErrorProbe<E>(pub E);

impl<E: Classify> ErrorProbe<E> {
    /// For an error that implements [`Classify`].
    pub fn into_handler_error(self) -> HandlerError {
        match self.0.classify() {
            Class::Dead => HandlerError::dead(self.0),
            Class::Retryable => HandlerError::retryable(self.0),
        }
    }
}

/// For every other error: retryable.
pub trait ClassifyFallback {
    /// For an error that does not implement [`Classify`].
    fn into_handler_error(self) -> HandlerError;
}

impl<E: Into<BoxError>> ClassifyFallback for ErrorProbe<E> {
    fn into_handler_error(self) -> HandlerError {
        HandlerError::retryable(self.0)
    }
}

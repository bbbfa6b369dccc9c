//! Whether an error type says "dead" is asked of the compiler in the expansion: an inherent method with a bound is found before a
//! trait's method of the same name, and passed over where the bound does not hold.

use crate::error::{BoxError, Class, Classify, HandlerError};

/// Wraps a handler's error for the question.
#[derive(Debug)]
pub struct ErrorProbe<E>(pub E);

impl<E: Classify> ErrorProbe<E> {
    /// For an error that implements [`Classify`].
    pub fn class(&self) -> Class {
        self.0.classify()
    }
}

/// For every other error: retryable.
pub trait ClassifyFallback {
    /// For an error that does not implement [`Classify`].
    fn class(&self) -> Class;
}

impl<E> ClassifyFallback for ErrorProbe<E> {
    fn class(&self) -> Class {
        Class::Retryable
    }
}

/// What can stand in `Err(..)` of a handler.
#[diagnostic::on_unimplemented(
    message = "a handler cannot fail with `{Self}`",
    label = "not an error of a handler",
    note = "implement `std::error::Error` for `{Self}`, or return any type that converts into `Box<dyn Error + Send + Sync>`, such as `anyhow::Error`"
)]
pub trait HandlerFailure {
    /// The error as the engine keeps it.
    fn into_handler_error(self, class: Class) -> HandlerError;
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> HandlerFailure for E {
    fn into_handler_error(self, class: Class) -> HandlerError {
        // A `HandlerError` that the handler made, or that `?` boxed, keeps its own meaning.
        match (self.into().downcast::<HandlerError>(), class) {
            (Ok(error), _) => *error,
            (Err(error), Class::Dead) => HandlerError::dead(error),
            (Err(error), Class::Retryable) => HandlerError::retryable(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Failure;

    struct Fatal;

    impl From<Fatal> for BoxError {
        fn from(_: Fatal) -> Self {
            "fatal".into()
        }
    }

    impl Classify for Fatal {
        fn classify(&self) -> Class {
            Class::Dead
        }
    }

    #[test]
    fn the_question_is_answered_by_the_type() {
        assert_eq!(ErrorProbe(Fatal).class(), Class::Dead);
        assert_eq!(ErrorProbe("any other").class(), Class::Retryable);
        let dead = Fatal.into_handler_error(Class::Dead);
        assert!(matches!(dead.failure, Failure::Error { class: Class::Dead, .. }));
    }

    #[test]
    fn an_error_of_ours_keeps_its_meaning() {
        let boxed: BoxError = Box::new(HandlerError::dead("no such article"));
        for error in
            [boxed.into_handler_error(Class::Retryable), HandlerError::dead("x").into_handler_error(Class::Retryable)]
        {
            assert!(matches!(error.failure, Failure::Error { class: Class::Dead, .. }), "{error:?}");
        }
    }
}

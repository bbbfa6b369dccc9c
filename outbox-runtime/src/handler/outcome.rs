//! What a handler may return.

use std::time::Duration;

use crate::error::{Failure, HandlerError};
use crate::event::{Draft, Enqueue, Event};

/// What a handler decided about its message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Outcome {
    /// Handled: commit and ack.
    Done,
    /// Roll back and run again after this time; the run counts as an attempt.
    RetryAfter(Duration),
    /// Roll back and keep the message as Dead with this reason.
    Dead(String),
}

/// A finished run: the events that it returned.
#[derive(Debug, Default)]
pub struct Handled {
    pub(crate) drafts: Vec<Draft>,
}

/// What can stand in `Ok(..)` of a handler.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not an outcome",
    note = "in `Ok` a handler returns `()`, an event, `Option`, `Vec` or a tuple of events, or `outbox::Outcome`"
)]
pub trait IntoOutcome {
    /// The meaning of the value.
    ///
    /// # Errors
    /// [`Outcome::RetryAfter`] and [`Outcome::Dead`] are errors to the engine: the transaction rolls back.
    fn into_outcome(self) -> Result<Handled, HandlerError>;
}

/// Events, nested at will.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither an event nor a collection of events",
    label = "not events",
    note = "return `()`, an event, or `Option`, `Vec` and tuples of events"
)]
pub trait IntoEvents {
    /// Appends them.
    fn into_events(self, drafts: &mut Vec<Draft>);
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Result<Handled, HandlerError> {
        match self {
            Self::Done => Ok(Handled::default()),
            Self::RetryAfter(delay) => Err(HandlerError { failure: Failure::RetryAfter(delay) }),
            Self::Dead(reason) => Err(HandlerError { failure: Failure::Rejected(reason) }),
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: IntoEvents> IntoOutcome for T {
    fn into_outcome(self) -> Result<Handled, HandlerError> {
        let mut handled = Handled::default();
        self.into_events(&mut handled.drafts);
        Ok(handled)
    }
}

#[diagnostic::do_not_recommend]
impl<E: Event> IntoEvents for E {
    fn into_events(self, drafts: &mut Vec<Draft>) {
        drafts.push(Draft::new(&self, Enqueue::new()));
    }
}

impl IntoEvents for () {
    fn into_events(self, _: &mut Vec<Draft>) {}
}

impl<T: IntoEvents> IntoEvents for Option<T> {
    fn into_events(self, drafts: &mut Vec<Draft>) {
        if let Some(events) = self {
            events.into_events(drafts);
        }
    }
}

impl<T: IntoEvents> IntoEvents for Vec<T> {
    fn into_events(self, drafts: &mut Vec<Draft>) {
        for events in self {
            events.into_events(drafts);
        }
    }
}

macro_rules! tuples {
    ($($name:ident),+) => {
        impl<$($name: IntoEvents),+> IntoEvents for ($($name,)+) {
            #[allow(non_snake_case, reason = "the type parameters name the fields")]
            fn into_events(self, drafts: &mut Vec<Draft>) {
                let ($($name,)+) = self;
                $($name.into_events(drafts);)+
            }
        }
    };
}
tuples!(A);
tuples!(A, B);
tuples!(A, B, C);
tuples!(A, B, C, D);
tuples!(A, B, C, D, F);
tuples!(A, B, C, D, F, G);
tuples!(A, B, C, D, F, G, H);
tuples!(A, B, C, D, F, G, H, I);

/// A handler's return type.
#[diagnostic::on_unimplemented(
    message = "a handler returns `Result<R, E>`, not `{Self}`",
    label = "expected `Result<R, E>`",
    note = "`R` is `()`, an event, `Option`/`Vec`/tuples of events, or `outbox::Outcome`; `E` is any error"
)]
pub trait HandlerReturn {
    /// What stands in `Ok`.
    type Ok;
    /// What stands in `Err`.
    type Err;
    /// The result itself.
    fn into_result(self) -> Result<Self::Ok, Self::Err>;
}

impl<R, E> HandlerReturn for Result<R, E> {
    type Ok = R;
    type Err = E;
    fn into_result(self) -> Self {
        self
    }
}

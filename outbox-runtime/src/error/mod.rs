//! Every error that a user of the library can meet. Messages name the place and the cure; none shows a payload or a password.

mod enqueue;
mod handler;
mod problem;
mod start;

use std::fmt;

pub use self::enqueue::EnqueueError;
pub use self::handler::{BoxError, Class, Classify, HandlerError};
pub use self::problem::Problem;
pub use self::start::{StartError, StartProblem};

pub(crate) use self::handler::Failure;
pub(crate) use self::problem::shown;

/// What [`runtime::run`](crate::runtime::run) and the other top-level functions return. Its `Debug` prints the message and its causes, since that is
/// what `main` shows.
pub struct Error {
    kind: Kind,
}

enum Kind {
    Start(StartError),
    Enqueue(EnqueueError),
    Handler(HandlerError),
    Database { doing: &'static str, source: sqlx::Error },
    Forced(String),
}

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn database(doing: &'static str, source: sqlx::Error) -> Self {
        Self { kind: Kind::Database { doing, source } }
    }

    pub(crate) fn forced(message: impl Into<String>) -> Self {
        Self { kind: Kind::Forced(message.into()) }
    }

    /// The problems that kept the runtime from starting, if that is what this error is.
    pub fn as_start(&self) -> Option<&StartError> {
        match &self.kind {
            Kind::Start(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Start(error) => error.fmt(f),
            Kind::Enqueue(error) => error.fmt(f),
            Kind::Handler(error) => error.fmt(f),
            Kind::Database { doing, .. } => write!(f, "the database failed while {doing}"),
            Kind::Forced(message) => f.write_str(message),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            write!(f, "\n  caused by: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Start(error) => error.source(),
            Kind::Enqueue(error) => error.source(),
            Kind::Handler(error) => error.source(),
            Kind::Database { source, .. } => Some(source),
            Kind::Forced(_) => None,
        }
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        Self { kind: Kind::Start(error) }
    }
}

impl From<EnqueueError> for Error {
    fn from(error: EnqueueError) -> Self {
        Self { kind: Kind::Enqueue(error) }
    }
}

impl From<HandlerError> for Error {
    fn from(error: HandlerError) -> Self {
        Self { kind: Kind::Handler(error) }
    }
}

impl From<sqlx::Error> for Error {
    fn from(source: sqlx::Error) -> Self {
        Self::database("running a statement", source)
    }
}

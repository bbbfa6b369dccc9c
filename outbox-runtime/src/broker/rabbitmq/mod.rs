//! RabbitMQ through lapin: supervised connections, declaration, publishing with proof, consuming.
//!
//! lapin's own recovery stays off: a channel error under it leaves a consumer pending for ever. Everything is rebuilt from the topology.

pub(crate) mod connection;
pub(crate) mod consume;
pub(crate) mod declare;
pub(crate) mod message;
pub(crate) mod publish;
mod quiet;
mod table;
pub(crate) mod url;

use std::time::Duration;

/// How long any single answer of the broker may take, beside confirms.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// A lapin call with a deadline.
pub(crate) async fn answered<T>(
    what: &'static str,
    call: impl Future<Output = lapin::Result<T>>,
) -> Result<T, RabbitError> {
    match tokio::time::timeout(ANSWER, call).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(RabbitError::Lapin(what, error)),
        Err(_) => Err(RabbitError::NoAnswer(what)),
    }
}

/// What went wrong with the broker.
#[derive(Debug)]
pub(crate) enum RabbitError {
    /// lapin or the broker said no.
    Lapin(&'static str, lapin::Error),
    /// Nothing came within the deadline.
    NoAnswer(&'static str),
    /// There is no connection at the moment.
    NotConnected,
}

impl RabbitError {
    /// The broker's reply code and text, if it sent one.
    pub(crate) fn reply(&self) -> Option<(u16, String)> {
        match self {
            Self::Lapin(_, error) => reply(error),
            _ => None,
        }
    }
}

pub(crate) fn reply(error: &lapin::Error) -> Option<(u16, String)> {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => Some((error.get_id(), error.get_message().to_string())),
        _ => None,
    }
}

impl std::fmt::Display for RabbitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lapin(what, error) => match reply(error) {
                Some((code, text)) => write!(f, "{what}: {code} {text}"),
                None => write!(f, "{what}: {error}"),
            },
            Self::NoAnswer(what) => write!(f, "{what}: no answer within {} s", ANSWER.as_secs()),
            Self::NotConnected => f.write_str("not connected"),
        }
    }
}

impl std::error::Error for RabbitError {}

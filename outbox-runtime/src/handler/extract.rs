//! Arguments that a handler takes by value.

use std::any::TypeId;
use std::fmt;

use tokio_util::sync::CancellationToken;

use crate::error::HandlerError;
use crate::event::{Event, Metadata, envelope};
use crate::handler::{Delivery, StateMap};

/// A type that a handler takes by value.
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// use outbox::{Delivery, FromDelivery, HandlerError};
///
/// struct Tenant(String);
///
/// impl FromDelivery for Tenant {
///     fn from_delivery(delivery: &Delivery<'_>) -> Result<Self, HandlerError> {
///         let tenant = delivery.metadata().headers().get("tenant").and_then(|value| value.as_str());
///         tenant.map(|name| Self(name.to_owned())).ok_or_else(|| HandlerError::dead("no header `tenant`"))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}` by value",
    label = "not an argument of a handler",
    note = "by value a handler takes its event, `Message<E>`, `Metadata`, `State<T>`, `IdempotencyKey`, `Cancelled`, or anything that implements `FromDelivery`",
    note = "the database goes by reference: `&mut sqlx::PgConnection`, `&mut sqlx::PgTransaction<'_>`, or those of SQLite"
)]
pub trait FromDelivery: Sized {
    /// Makes the value.
    ///
    /// # Errors
    /// [`HandlerError::dead`] or [`HandlerError::undecodable`] for a message that can never be handled,
    /// [`HandlerError::extract`] for one that may be handled later.
    fn from_delivery(delivery: &Delivery<'_>) -> Result<Self, HandlerError>;

    /// Tells start-up what the value needs, so that a missing `State` is found before the first message.
    fn requires(requirements: &mut Requirements) {
        let _ = requirements;
    }
}

/// What a handler's arguments need from the runtime.
#[derive(Debug, Default)]
pub struct Requirements {
    pub(crate) states: Vec<(TypeId, &'static str)>,
}

impl Requirements {
    /// Needs a value of type `T` from `Runtime::builder().state(value)`.
    pub fn state<T: Send + Sync + 'static>(&mut self) {
        self.states.push((TypeId::of::<T>(), std::any::type_name::<T>()));
    }

    pub(crate) fn missing<'a>(&'a self, states: &'a StateMap) -> impl Iterator<Item = &'static str> + 'a {
        self.states.iter().filter(|(id, _)| !states.contains(*id)).map(|(_, name)| *name)
    }
}

#[diagnostic::do_not_recommend]
impl<E: Event> FromDelivery for E {
    fn from_delivery(delivery: &Delivery<'_>) -> Result<Self, HandlerError> {
        envelope::decode(delivery.body, delivery.form)
            .map_err(|error| HandlerError::undecodable(Undecodable::new(&error)))
    }
}

impl FromDelivery for Metadata {
    fn from_delivery(delivery: &Delivery<'_>) -> Result<Self, HandlerError> {
        Ok(delivery.metadata.clone())
    }
}

/// The key for effects outside the handler's transaction (an HTTP call, a mail): the same in every run for this event and consumer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// For a unit test of a handler.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The key as text: `consumer/event id`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromDelivery for IdempotencyKey {
    fn from_delivery(delivery: &Delivery<'_>) -> Result<Self, HandlerError> {
        Ok(Self(format!("{}/{}", delivery.metadata.consumer, delivery.metadata.event_id)))
    }
}

/// Tells a long handler that the runtime is stopping, so that it can return early.
#[derive(Debug, Clone, Default)]
pub struct Cancelled(CancellationToken);

impl Cancelled {
    /// One that is never cancelled, for a unit test of a handler.
    pub fn never() -> Self {
        Self::default()
    }

    /// Whether the runtime is stopping.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Completes when the runtime begins to stop.
    ///
    /// # Cancel safety
    /// It can be dropped at any time.
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }
}

impl FromDelivery for Cancelled {
    fn from_delivery(delivery: &Delivery<'_>) -> Result<Self, HandlerError> {
        Ok(Self(delivery.cancelled.clone()))
    }
}

/// What serde said of a body, without values of the body: serde quotes them in some of its messages.
#[derive(Debug)]
struct Undecodable(String);

impl Undecodable {
    fn new(error: &serde_json::Error) -> Self {
        let what = match error.classify() {
            serde_json::error::Category::Data => without_values(&error.to_string()),
            serde_json::error::Category::Eof => "the JSON ends too early".to_owned(),
            _ => "not valid JSON".to_owned(),
        };
        Self(format!("{what} at line {} column {}", error.line(), error.column()))
    }
}

/// `invalid type: string "secret", expected i32 at line 1 column 5` -> `invalid type: string, expected i32`. Names of fields, which serde
/// puts into backticks, stay; what stands in double quotes, or after a kind of scalar, is a value.
fn without_values(message: &str) -> String {
    let message = message.rsplit_once(" at line ").map_or(message, |(head, _)| head);
    let Some((head, tail)) = message.rsplit_once(", expected ") else {
        let unknown = message.starts_with("missing field") || message.starts_with("duplicate field");
        return if unknown {
            message.to_owned()
        } else {
            message.split([':', '`', '"']).next().unwrap_or_default().trim().to_owned()
        };
    };
    let head = head.split(['"', '`']).next().unwrap_or_default().trim();
    format!("{head}, expected {tail}")
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Undecodable {}

#[cfg(test)]
mod tests {
    use super::without_values;

    #[test]
    fn a_decode_error_does_not_show_a_value() {
        let table = [
            (
                r#"invalid type: string "4111 1111", expected i32 at line 1 column 20"#,
                "invalid type: string, expected i32",
            ),
            (
                "invalid type: integer `41`, expected a string at line 1 column 2",
                "invalid type: integer, expected a string",
            ),
            (
                "invalid type: sequence, expected a string at line 1 column 2",
                "invalid type: sequence, expected a string",
            ),
            (
                "invalid type: floating point `1.5`, expected i32 at line 1 column 2",
                "invalid type: floating point, expected i32",
            ),
            ("missing field `order_id` at line 1 column 2", "missing field `order_id`"),
            (
                "unknown variant `secret`, expected `a` or `b` at line 1 column 2",
                "unknown variant, expected `a` or `b`",
            ),
            (
                r#"a custom message with "secret", expected nothing, expected x at line 1 column 2"#,
                "a custom message with, expected x",
            ),
            ("my own error: secret at line 3 column 1", "my own error"),
        ];
        for (message, want) in table {
            assert_eq!(without_values(message), want);
        }
    }
}

//! The one id that travels with an event through all four boundaries.

use std::fmt;

use crate::error::Problem;
use crate::event::name;

/// An event's id: 1 to 64 bytes of text without control characters. A new one is a ULID.
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// use outbox::EventId;
///
/// let id = EventId::new();
/// assert_eq!(id.as_str().len(), 26);
/// assert!(EventId::parse("order-17/created").is_ok());
/// assert!(EventId::parse("x".repeat(65)).is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(Box<str>);

impl EventId {
    /// A new ULID.
    #[allow(clippy::new_without_default, reason = "a default that differs at each call surprises")]
    pub fn new() -> Self {
        Self(ulid::Ulid::new().to_string().into_boxed_str())
    }

    /// Takes any id that fits.
    ///
    /// # Errors
    /// A [`Problem`] if it is empty, longer than 64 bytes, or has a control character.
    pub fn parse(id: impl Into<String>) -> Result<Self, Problem> {
        let id = id.into();
        match name::event_id(&id) {
            Ok(()) => Ok(Self(id.into_boxed_str())),
            Err(problem) => Err(Problem::name("event id", &id, problem)),
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for EventId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<EventId> for String {
    fn from(id: EventId) -> Self {
        id.0.into_string()
    }
}

impl PartialEq<str> for EventId {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for EventId {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

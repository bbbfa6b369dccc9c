//! What a caller may say of one event beside its fields.

use std::time::SystemTime;

use serde_json::Value;

use crate::event::HeaderMap;

/// Options of one `enqueue_with`. What is wrong with them is reported by `enqueue_with`, all at once, before anything is written.
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// use outbox::Enqueue;
///
/// let options = Enqueue::new().header("tenant", "acme").correlation_id("checkout-17");
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "it does nothing until it is given to `enqueue_with`"]
pub struct Enqueue {
    pub(crate) headers: HeaderMap,
    pub(crate) correlation_id: Option<String>,
    pub(crate) causation_id: Option<String>,
    pub(crate) event_id: Option<String>,
    pub(crate) occurred_at: Option<SystemTime>,
}

impl Enqueue {
    /// No options: a new id, now, no headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header: text, a number up to `i64::MAX`, a bool, null, an array or an object of these.
    pub fn header(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.headers.insert(key.into(), value.into());
        self
    }

    /// Sets the id that all events of one business process share, at most 255 bytes.
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Sets the id of the event that caused this one; in a handler the runtime sets it.
    pub fn causation_id(mut self, id: impl Into<String>) -> Self {
        self.causation_id = Some(id.into());
        self
    }

    /// Sets the event's id instead of a new ULID: at most 64 bytes. A repeated one is [`EnqueueError::Duplicate`](crate::EnqueueError::Duplicate)
    /// and leaves the transaction usable.
    pub fn event_id(mut self, id: impl Into<String>) -> Self {
        self.event_id = Some(id.into());
        self
    }

    /// Sets when it happened; without it, now.
    pub fn occurred_at(mut self, time: impl Into<SystemTime>) -> Self {
        self.occurred_at = Some(time.into());
        self
    }
}

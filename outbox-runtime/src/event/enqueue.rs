//! What a caller may say of one event beside its fields.

use std::time::{Duration, SystemTime};

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
    pub(crate) at: Option<SystemTime>,
    pub(crate) after: Option<Duration>,
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

    /// Publishes it not before that time, by the clock of the database; a time in the past means at once. Until then it can be taken back with
    /// [`cancel`](crate::cancel).
    ///
    /// Either `at` or [`after`](Self::after), and neither for an event with `ordered`: the later events of its key would have to wait for it.
    ///
    /// ```
    /// # extern crate outbox_runtime as outbox;
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// let reminder = outbox::Enqueue::new().event_id("reminder-42").at(UNIX_EPOCH + Duration::from_secs(1_900_000_000));
    /// # let _ = reminder;
    /// ```
    pub fn at(mut self, time: impl Into<SystemTime>) -> Self {
        self.at = Some(time.into());
        self
    }

    /// Publishes it not before so much time has passed since the enqueue, by the clock of the database. See [`at`](Self::at).
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }
}

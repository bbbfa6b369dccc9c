//! What a handler can know of an event beside its fields.

use std::time::SystemTime;

use crate::event::trace::TraceContext;
use crate::event::{EventId, HeaderMap};

/// Everything about one event, or one delivery of it, that is not in its own fields. A handler takes it by value.
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// use outbox::{EventId, Metadata};
///
/// let metadata = Metadata::new(EventId::new(), "order.created").with_attempt(3);
/// assert_eq!(metadata.attempt(), 3);
/// ```
#[derive(Debug, Clone)]
pub struct Metadata {
    pub(crate) event_id: EventId,
    pub(crate) event_type: String,
    pub(crate) version: u32,
    pub(crate) key: Option<String>,
    pub(crate) occurred_at: Option<SystemTime>,
    pub(crate) enqueued_at: Option<SystemTime>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) causation_id: Option<String>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) headers: HeaderMap,
    pub(crate) consumer: String,
    pub(crate) attempt: u32,
    pub(crate) redelivered: bool,
}

impl Metadata {
    /// For a unit test of a handler: version 1, attempt 1, everything else empty.
    pub fn new(event_id: EventId, event_type: impl Into<String>) -> Self {
        Self {
            event_id,
            event_type: event_type.into(),
            version: 1,
            key: None,
            occurred_at: None,
            enqueued_at: None,
            correlation_id: None,
            causation_id: None,
            trace: None,
            headers: HeaderMap::new(),
            consumer: String::new(),
            attempt: 1,
            redelivered: false,
        }
    }

    /// The same with another attempt number.
    #[must_use]
    pub fn with_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The same with another version.
    #[must_use]
    pub fn with_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// The same with a key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same with a correlation id.
    #[must_use]
    pub fn with_correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// The same with a consumer's name.
    #[must_use]
    pub fn with_consumer(mut self, consumer: impl Into<String>) -> Self {
        self.consumer = consumer.into();
        self
    }

    /// The same with a header.
    #[must_use]
    pub fn with_header(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.headers.insert(key.into(), value.into());
        self
    }

    /// The same with the time of the event.
    #[must_use]
    pub fn with_occurred_at(mut self, time: SystemTime) -> Self {
        self.occurred_at = Some(time);
        self
    }

    /// The id of the event: the same in every delivery of it.
    pub fn event_id(&self) -> &EventId {
        &self.event_id
    }

    /// The event's name: `order.created`.
    pub fn event_type(&self) -> &str {
        &self.event_type
    }

    /// The version of the event's own fields, as the producer sent it.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The id of the aggregate that the event belongs to, if it has a key.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// When it happened, by the producer's word.
    pub fn occurred_at(&self) -> Option<SystemTime> {
        self.occurred_at
    }

    /// When it was written to the outbox, by the clock of the producer's database; `None` if a foreign producer sent it.
    pub fn enqueued_at(&self) -> Option<SystemTime> {
        self.enqueued_at
    }

    /// The id that all events of one business process share.
    pub fn correlation_id(&self) -> Option<&str> {
        self.correlation_id.as_deref()
    }

    /// The id of the event whose handler wrote this one.
    pub fn causation_id(&self) -> Option<&str> {
        self.causation_id.as_deref()
    }

    /// The trace that the event belongs to.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_ref()
    }

    /// The headers that the producer added.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The consumer that handles this delivery.
    pub fn consumer(&self) -> &str {
        &self.consumer
    }

    /// The number of this attempt to handle it, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether the broker says that it delivered this message before.
    pub fn redelivered(&self) -> bool {
        self.redelivered
    }
}

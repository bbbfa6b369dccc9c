//! A message as it came from a broker or from `parked_messages`: body and properties, before anybody has made sense of them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Properties and headers of a message. Stored as JSON with a parked message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Properties {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message_id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) correlation_id: Option<String>,
    /// Seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<u64>,
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) redelivered: bool,
    pub(crate) headers: Map<String, Value>,
}

impl Properties {
    /// A header that is text.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.headers.get(key).and_then(Value::as_str)
    }
}

/// A message.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawMessage {
    pub(crate) body: Vec<u8>,
    pub(crate) properties: Properties,
}

/// Header names on the wire, beside `traceparent` and `tracestate`.
pub(crate) mod wire {
    pub(crate) const EVENT_ID: &str = "outbox-event-id";
    pub(crate) const VERSION: &str = "outbox-event-version";
    pub(crate) const ENVELOPE: &str = "outbox-envelope";
    pub(crate) const KEY: &str = "outbox-key";
    pub(crate) const ENQUEUED_AT: &str = "outbox-enqueued-at";
    pub(crate) const CAUSATION: &str = crate::outbox::own_header::CAUSATION;
}

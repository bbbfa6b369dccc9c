//! What the columns of a row hold, where the event says it in another form. The same for every database.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::event::draft::{Content, Due};
use crate::event::{EventDescriptor, EventId, HeaderMap};
use crate::outbox::own_header;

/// The caller's headers and ours in one column.
pub(crate) fn headers(content: &Content) -> HeaderMap {
    let mut headers = content.headers.clone();
    let mut add = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            headers.insert(key.to_owned(), value.into());
        }
    };
    add(own_header::CORRELATION, content.correlation_id.as_deref());
    add(own_header::CAUSATION, content.causation_id.as_deref());
    add(own_header::TRACEPARENT, content.trace.as_ref().map(|trace| trace.traceparent()));
    add(own_header::TRACESTATE, content.trace.as_ref().and_then(|trace| trace.tracestate()));
    headers
}

pub(crate) fn version(version: u32) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}

pub(crate) fn bytes(payload: &str) -> i32 {
    i32::try_from(payload.len()).unwrap_or(i32::MAX)
}

pub(crate) fn max_attempts(event: &EventDescriptor) -> i32 {
    i32::try_from(event.max_attempts).unwrap_or(i32::MAX).max(1)
}

/// The first pause and the longest, in milliseconds.
pub(crate) fn backoff(event: &EventDescriptor) -> (i32, i32) {
    let millis = |pause: Duration| i32::try_from(pause.as_millis()).unwrap_or(i32::MAX).max(1);
    (millis(event.backoff.0), millis(event.backoff.1))
}

/// When it is due: that time, or else so long after now by the database's clock.
pub(crate) fn due(content: &Content) -> (Option<DateTime<Utc>>, Duration) {
    match content.due {
        Due::Now => (None, Duration::ZERO),
        Due::At(time) => (Some(time), Duration::ZERO),
        Due::After(delay) => (None, delay),
    }
}

/// Those of these events whose ids are, or are not, among `ids`.
pub(crate) fn among(contents: &[Content], ids: &[String], wanted: bool) -> Vec<EventId> {
    let ids: HashSet<&str> = ids.iter().map(String::as_str).collect();
    let events = contents.iter().map(|content| &content.event_id);
    events.filter(|id| ids.contains(id.as_str()) == wanted).cloned().collect()
}

//! What the columns of a row hold, where the event says it in another form. The same for every database.

use crate::event::HeaderMap;
use crate::event::draft::Content;
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

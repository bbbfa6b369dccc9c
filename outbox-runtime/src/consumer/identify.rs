//! Making sense of a message: who it is, what it is, and in which form (C6, C8). Pure.

use std::time::{Duration, UNIX_EPOCH};

use chrono::{DateTime, Utc};

use crate::error::shown;
use crate::event::envelope::{self, Inspected};
use crate::event::trace::TraceContext;
use crate::event::{Envelope, EventId, HeaderMap, Metadata, name};
use crate::inbox::{InboxEntry, Reason};
use crate::outbox::own_header;
use crate::raw::{Properties, RawMessage, wire};

/// A message that can be handled.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub(crate) metadata: Metadata,
    pub(crate) form: Envelope,
    pub(crate) entry: InboxEntry,
}

/// A message that cannot, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) reason: Reason,
    pub(crate) error: String,
    pub(crate) event_id: Option<String>,
    pub(crate) event_type: Option<String>,
}

/// Reads a message of `consumer`.
pub(crate) fn identify(raw: &RawMessage, consumer: &str, max_body: usize) -> Result<Incoming, Rejected> {
    let properties = &raw.properties;
    let rejected = |reason, error: String, event_id: Option<&str>, event_type: Option<&str>| Rejected {
        reason,
        error,
        event_id: event_id.filter(|id| name::event_id(id).is_ok()).map(str::to_owned),
        event_type: event_type.filter(|kind| name::short_string(kind).is_ok()).map(str::to_owned),
    };
    if raw.body.len() > max_body {
        let error = format!("the body has {} bytes, the limit is {max_body}", raw.body.len());
        let id = properties.text(wire::EVENT_ID).or(properties.message_id.as_deref());
        return Err(rejected(Reason::Oversize, error, id, properties.kind.as_deref()));
    }
    let inspected = envelope::inspect(&raw.body);
    let form = form(properties, &inspected);
    let event_type = properties.kind.clone().filter(|kind| !kind.is_empty()).or_else(|| inspected.event_type.clone());
    let kind = event_type.as_deref();
    let id = match id(properties, form, &inspected) {
        Ok(Some(id)) => id,
        Ok(None) => {
            let error = "neither the header `outbox-event-id`, nor `message_id`, nor the body has an id";
            return Err(rejected(Reason::NoId, error.to_owned(), None, kind));
        }
        Err(error) => return Err(rejected(Reason::IdsDisagree, error, None, kind)),
    };
    let event_id = match EventId::parse(id.as_str()) {
        Ok(event_id) => event_id,
        Err(problem) => return Err(rejected(Reason::BadId, problem.to_string(), None, kind)),
    };
    let Some(event_type) = event_type.filter(|kind| name::short_string(kind).is_ok()) else {
        let error = "neither the property `type` nor the body says what event it is";
        return Err(rejected(Reason::UnknownEvent, error.to_owned(), Some(&id), None));
    };
    let version = version(properties, &inspected);
    let enqueued_at = properties.text(wire::ENQUEUED_AT).and_then(time);
    let entry = InboxEntry {
        consumer: consumer.to_owned(),
        event_id: event_id.as_str().to_owned(),
        enqueued_at,
        version: i32::try_from(version).unwrap_or(i32::MAX),
        fingerprint: envelope::fingerprint(&event_type, &raw.body, form),
    };
    let occurred = inspected.occurred_at.as_deref().and_then(time).map(envelope::to_system);
    let trace = properties.text(own_header::TRACEPARENT).and_then(TraceContext::parse).map(|context| match properties
        .text(own_header::TRACESTATE)
    {
        Some(state) => context.with_state(state),
        None => context,
    });
    let metadata = Metadata {
        event_id,
        event_type,
        version,
        key: properties.text(wire::KEY).map(str::to_owned),
        occurred_at: occurred.or_else(|| properties.timestamp.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds))),
        enqueued_at: enqueued_at.map(envelope::to_system),
        correlation_id: properties.correlation_id.clone(),
        causation_id: properties.text(wire::CAUSATION).map(str::to_owned),
        trace,
        headers: callers_headers(properties),
        consumer: consumer.to_owned(),
        attempt: 1,
        redelivered: properties.redelivered,
    };
    Ok(Incoming { metadata, form, entry })
}

/// Our header and `content_type` decide; only without them the body does.
fn form(properties: &Properties, inspected: &Inspected) -> Envelope {
    if let Some(form) = properties.text(wire::ENVELOPE).and_then(Envelope::from_name) {
        return form;
    }
    match properties.content_type.as_deref() {
        Some(content_type) if content_type.starts_with("application/cloudevents+json") => Envelope::CloudEvents,
        _ => inspected.form,
    }
}

/// Our header; else, for CloudEvents, source and id; else `message_id`; else the body's. Two that disagree are an error.
fn id(properties: &Properties, form: Envelope, inspected: &Inspected) -> Result<Option<String>, String> {
    let header = properties.text(wire::EVENT_ID).filter(|id| !id.is_empty());
    let property = properties.message_id.as_deref().filter(|id| !id.is_empty());
    let body = match form {
        Envelope::Flat => inspected.event_id.as_deref(),
        Envelope::CloudEvents if header.is_some() => inspected.bare_id.as_deref(),
        _ => None,
    };
    if form == Envelope::CloudEvents && header.is_none() {
        if let Some(id) = &inspected.event_id {
            return Ok(Some(shortened(id)));
        }
        return Ok(property.map(str::to_owned));
    }
    let known: Vec<(&str, &str)> = [("the header", header), ("`message_id`", property), ("the body", body)]
        .into_iter()
        .filter_map(|(place, id)| id.map(|id| (place, id)))
        .collect();
    let Some((place, first)) = known.first() else { return Ok(None) };
    if let Some((other, second)) = known.iter().find(|(_, id)| id != first) {
        return Err(format!("{place} says {}, {other} says {}", shown(first), shown(second)));
    }
    Ok(Some((*first).to_owned()))
}

/// Source and id of a CloudEvent may be longer than an id may be; then its hash stands for it, the same at every delivery.
fn shortened(id: &str) -> String {
    if id.len() <= name::EVENT_ID_BYTES {
        return id.to_owned();
    }
    let hash = envelope::fingerprint("", id.as_bytes(), Envelope::Bare);
    hash.iter().fold(String::from("ce-"), |text, byte| text + &format!("{byte:02x}"))
}

fn version(properties: &Properties, inspected: &Inspected) -> u32 {
    let header = properties
        .headers
        .get(wire::VERSION)
        .and_then(|value| value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok())));
    header.and_then(|version| u32::try_from(version).ok()).or(inspected.version).unwrap_or(1)
}

fn time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.with_timezone(&Utc))
}

fn callers_headers(properties: &Properties) -> HeaderMap {
    properties
        .headers
        .iter()
        .filter(|(key, _)| {
            let ours = key.starts_with("outbox-") || key.starts_with("x-");
            !ours && key.as_str() != own_header::TRACEPARENT && key.as_str() != own_header::TRACESTATE
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(body: &str, properties: serde_json::Value) -> RawMessage {
        RawMessage {
            body: body.as_bytes().to_vec(),
            properties: serde_json::from_value(properties).unwrap_or_default(),
        }
    }

    fn check(body: &str, properties: serde_json::Value) -> Result<(String, String, u32, Envelope), Reason> {
        identify(&message(body, properties), "c", 1000)
            .map(|i| (i.metadata.event_id.to_string(), i.metadata.event_type, i.metadata.version, i.form))
            .map_err(|rejected| rejected.reason)
    }

    /// C6, C8.
    #[test]
    fn who_and_what_a_message_is() {
        let flat = r#"{"eventId":"e1","eventType":"t","x":1}"#;
        let ok = |id: &str, kind: &str, version, form| Ok((id.to_owned(), kind.to_owned(), version, form));
        let table = [
            (flat, json!({}), ok("e1", "t", 1, Envelope::Flat)),
            (flat, json!({"message_id": "e1", "headers": {"outbox-event-id": "e1"}}), ok("e1", "t", 1, Envelope::Flat)),
            (flat, json!({"message_id": "e2"}), Err(Reason::IdsDisagree)),
            (flat, json!({"headers": {"outbox-event-id": "e2"}}), Err(Reason::IdsDisagree)),
            ("{}", json!({"message_id": "e2", "type": "t"}), ok("e2", "t", 1, Envelope::Bare)),
            ("{}", json!({"type": "t"}), Err(Reason::NoId)),
            ("{}", json!({"message_id": "e2"}), Err(Reason::UnknownEvent)),
            ("not json", json!({"message_id": "e2", "type": "t"}), ok("e2", "t", 1, Envelope::Bare)),
            ("{}", json!({"message_id": "x".repeat(65), "type": "t"}), Err(Reason::BadId)),
            (r#"{"v":7,"data":{}}"#, json!({"message_id": "e", "type": "t"}), ok("e", "t", 7, Envelope::Versioned)),
            (
                r#"{"v":7,"data":{}}"#,
                json!({"message_id": "e", "type": "t", "headers": {"outbox-event-version": 3, "outbox-envelope": "bare"}}),
                ok("e", "t", 3, Envelope::Bare),
            ),
            (
                r#"{"specversion":"1.0","id":"7","source":"/s","type":"t","data":{}}"#,
                json!({"message_id": "7"}),
                ok("/s 7", "t", 1, Envelope::CloudEvents),
            ),
        ];
        for (body, properties, want) in table {
            assert_eq!(check(body, properties.clone()), want, "{body} {properties}");
        }
        assert_eq!(check(&"x".repeat(1001), json!({"message_id": "e", "type": "t"})), Err(Reason::Oversize));
    }
}

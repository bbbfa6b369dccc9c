//! What a body says about itself, for messages without our headers (C8).

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::event::Envelope;

/// What was found in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// The form that the body has.
    pub form: Envelope,
    /// `eventId`, or `source` and `id` of a CloudEvent joined by a space.
    pub event_id: Option<String>,
    /// The `id` of a CloudEvent without its source.
    pub bare_id: Option<String>,
    /// `eventType`, or `type` of a CloudEvent.
    pub event_type: Option<String>,
    /// `eventVersion`, `v`, or `dataversion`.
    pub version: Option<u32>,
    /// `occurredAt` or `time`, as it stands there.
    pub occurred_at: Option<String>,
}

/// Looks at the top level of a body. A body that is not a JSON object is `bare` and says nothing.
pub fn inspect(body: &[u8]) -> Inspected {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| fields.get(name).and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let number = |name: &str| {
        let raw = fields.get(name)?.get();
        serde_json::from_str::<u32>(raw.trim_matches('"')).ok()
    };
    if fields.contains_key("specversion") {
        let id = match (text("source"), text("id")) {
            (Some(source), Some(id)) => Some(format!("{source} {id}")),
            _ => None,
        };
        return Inspected {
            form: Envelope::CloudEvents,
            event_id: id,
            bare_id: text("id"),
            event_type: text("type"),
            version: number("dataversion"),
            occurred_at: text("time"),
        };
    }
    if fields.contains_key("eventId") || fields.contains_key("eventType") {
        return Inspected {
            form: Envelope::Flat,
            event_id: text("eventId"),
            bare_id: None,
            event_type: text("eventType"),
            version: number("eventVersion"),
            occurred_at: text("occurredAt"),
        };
    }
    let versioned = fields.len() == 2 && fields.contains_key("data") && number("v").is_some();
    Inspected {
        form: if versioned { Envelope::Versioned } else { Envelope::Bare },
        event_id: None,
        bare_id: None,
        event_type: None,
        version: if versioned { number("v") } else { None },
        occurred_at: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_tells_its_form() {
        let table: [(&str, Envelope, Option<&str>); 7] = [
            (r#"{"eventId":"1","eventType":"t","x":2}"#, Envelope::Flat, Some("1")),
            (r#"{"v":3,"data":{"eventId":"inner"}}"#, Envelope::Versioned, None),
            (r#"{"v":3,"data":{},"more":1}"#, Envelope::Bare, None),
            (
                r#"{"specversion":"1.0","id":"7","source":"/a","type":"t","data":{}}"#,
                Envelope::CloudEvents,
                Some("/a 7"),
            ),
            (r#"{"specversion":"1.0","id":"7","type":"t"}"#, Envelope::CloudEvents, None),
            ("[1,2]", Envelope::Bare, None),
            ("not json", Envelope::Bare, None),
        ];
        for (body, form, id) in table {
            let found = inspect(body.as_bytes());
            assert_eq!((found.form, found.event_id.as_deref()), (form, id), "{body}");
        }
    }
}

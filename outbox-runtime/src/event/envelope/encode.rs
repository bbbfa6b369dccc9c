//! A struct to a body.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::Problem;
use crate::event::envelope::{FLAT_FIELDS, rfc3339};
use crate::event::{Envelope, Event, EventDescriptor, EventId};

/// The body of one event. Own fields keep the bytes that serde wrote: `199.00` stays `199.00`.
///
/// # Errors
/// A [`Problem`] if serde fails, if a flat event is not a JSON object, or if one of its own fields has a name of the envelope.
pub fn encode<E: Event>(
    event: &E,
    descriptor: &EventDescriptor,
    event_id: &EventId,
    occurred_at: DateTime<Utc>,
) -> Result<String, Problem> {
    let own = serde_json::to_string(event).map_err(|error| Problem::encode(error.to_string()))?;
    let time = rfc3339(occurred_at);
    let id = quoted(event_id.as_str());
    let name = descriptor.name;
    match descriptor.envelope {
        Envelope::Bare => Ok(own),
        Envelope::Versioned => Ok(format!(r#"{{"v":{},"data":{own}}}"#, descriptor.version)),
        Envelope::CloudEvents => Ok(format!(
            r#"{{"specversion":"1.0","id":{id},"source":{},"type":"{name}","time":"{time}","datacontenttype":"application/json","dataversion":"{}","data":{own}}}"#,
            quoted(&format!("/{}", descriptor.aggregate)),
            descriptor.version,
        )),
        Envelope::Flat => {
            let Some(fields) = own.strip_prefix('{') else {
                return Err(Problem::encode(
                    "a flat envelope needs a JSON object: use `envelope = \"versioned\"`".to_owned(),
                ));
            };
            if let Some(field) = collision(&own) {
                return Err(Problem::encode(format!(
                    "its field `{field}` is also a field of the flat envelope: rename it or use `envelope = \"versioned\"`"
                )));
            }
            let mut body = String::with_capacity(own.len() + 160);
            let _ = write!(body, r#"{{"eventId":{id},"eventType":"{name}","occurredAt":"{time}""#);
            if descriptor.version != 1 {
                let _ = write!(body, r#","eventVersion":{}"#, descriptor.version);
            }
            if fields != "}" {
                body.push(',');
            }
            body.push_str(fields);
            Ok(body)
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A top-level field of `json` that the envelope needs for itself. Most bodies end at the search for its bytes.
fn collision(json: &str) -> Option<&'static str> {
    if !FLAT_FIELDS.iter().any(|field| json.contains(field)) {
        return None;
    }
    struct Keys;
    impl<'de> Visitor<'de> for Keys {
        type Value = Option<&'static str>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(key) = map.next_key::<String>()? {
                found = found.or_else(|| FLAT_FIELDS.into_iter().find(|field| *field == key));
                map.next_value::<IgnoredAny>()?;
            }
            Ok(found)
        }
    }
    struct Found(Option<&'static str>);
    impl<'de> Deserialize<'de> for Found {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(Keys).map(Self)
        }
    }
    serde_json::from_str::<Found>(json).ok().and_then(|found| found.0)
}

#[cfg(test)]
mod tests {
    use super::collision;

    #[test]
    fn only_a_top_level_field_collides() {
        for (json, want) in [
            (r#"{"orderId":1}"#, None),
            (r#"{"note":"eventId"}"#, None),
            (r#"{"inner":{"eventId":1}}"#, None),
            (r#"{"a":1,"eventId":1}"#, Some("eventId")),
            (r#"{"eventVersion":1}"#, Some("eventVersion")),
        ] {
            assert_eq!(collision(json), want, "{json}");
        }
    }
}

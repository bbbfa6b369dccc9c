//! A hash of an event's own fields that does not depend on the order of its fields or on white space: two events with the same id
//! and version but another fingerprint are an id used twice (C8).

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::event::Envelope;
use crate::event::envelope::FLAT_FIELDS;

/// The first 16 bytes of the SHA-256 of the canonical JSON.
pub type Fingerprint = [u8; 16];

/// The fingerprint of an event's name and of its own fields in `body`; a body that is not JSON is hashed as bytes.
pub fn fingerprint(name: &str, body: &[u8], form: Envelope) -> Fingerprint {
    let mut hasher = Sha256::new();
    hasher.update(name.as_bytes());
    hasher.update([0]);
    match serde_json::from_slice::<Value>(body) {
        Ok(mut value) => {
            match (form, &mut value) {
                (Envelope::Flat, Value::Object(fields)) => {
                    for field in FLAT_FIELDS {
                        fields.remove(field);
                    }
                }
                (Envelope::Versioned | Envelope::CloudEvents, Value::Object(fields)) => {
                    value = fields.remove("data").unwrap_or(Value::Null);
                }
                _ => {}
            }
            canonical(&value, &mut hasher);
        }
        Err(_) => hasher.update(body),
    }
    let digest = hasher.finalize();
    let mut short = [0; 16];
    short.copy_from_slice(&digest[..16]);
    short
}

/// Feeds the value with its keys sorted: another crate may switch on serde_json's `preserve_order`.
fn canonical(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            hasher.update(b"{");
            for key in keys {
                hasher.update(Value::from(key.as_str()).to_string().as_bytes());
                hasher.update(b":");
                canonical(&fields[key], hasher);
                hasher.update(b",");
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                canonical(item, hasher);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        scalar => hasher.update(scalar.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_white_space_do_not_count_but_values_do() {
        let flat = |body: &str| fingerprint("t", body.as_bytes(), Envelope::Flat);
        let one = flat(r#"{"eventId":"a","eventType":"t","occurredAt":"x","a":1,"b":{"c":2,"d":[1,2]}}"#);
        assert_eq!(one, flat(r#"{ "b": {"d":[1,2], "c":2}, "a": 1, "eventId":"other" }"#));
        assert_ne!(one, flat(r#"{"a":1,"b":{"c":2,"d":[2,1]}}"#));
        assert_ne!(one, flat(r#"{"a":2,"b":{"c":2,"d":[1,2]}}"#));
        let wrapped = fingerprint("t", br#"{"v":1,"data":{"b":{"c":2,"d":[1,2]},"a":1}}"#, Envelope::Versioned);
        assert_eq!(one, wrapped, "the form does not count");
        assert_ne!(fingerprint("t", b"not json", Envelope::Bare), fingerprint("t", b"not json!", Envelope::Bare));
        assert_ne!(fingerprint("t", b"{}", Envelope::Bare), fingerprint("u", b"{}", Envelope::Bare));
    }
}

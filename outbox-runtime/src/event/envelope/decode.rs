//! A body to a struct.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::envelope::FLAT_FIELDS;
use crate::event::{Envelope, Event};

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
}

/// Reads an event's own fields out of a body of this form.
///
/// # Errors
/// What serde says of a body that does not fit: line, column and field, never a value of the body.
pub fn decode<E: Event>(body: &[u8], form: Envelope) -> Result<E, serde_json::Error> {
    match form {
        Envelope::Bare => serde_json::from_slice(body),
        Envelope::Versioned | Envelope::CloudEvents => {
            let wrapped: Data<'_> = serde_json::from_slice(body)?;
            serde_json::from_str(wrapped.data.get())
        }
        Envelope::Flat if !E::DESCRIPTOR.strip => serde_json::from_slice(body),
        Envelope::Flat => serde_json::from_str(&stripped(body)?),
    }
}

/// A flat body without the envelope's fields, for structs that would refuse or collect them. Values keep their bytes.
fn stripped(body: &[u8]) -> Result<String, serde_json::Error> {
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_slice(body)?;
    for field in FLAT_FIELDS {
        fields.remove(field);
    }
    serde_json::to_string(&fields)
}

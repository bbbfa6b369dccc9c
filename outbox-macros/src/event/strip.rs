//! Whether the fields of a flat envelope must be taken off a body before serde reads it.

use syn::ext::IdentExt;

use crate::event::FLAT_FIELDS;
use crate::event::casing::Casing;
use crate::event::model::{Event, Field, Shape};

/// A flattened map would collect them, `deny_unknown_fields` would refuse them, an alias would take one for its own; of a type that
/// stands for this one nothing is known. To strip is always right and costs a copy of the body.
pub(super) fn needed(event: &Event<'_>) -> bool {
    let serde = &event.serde;
    let inside = match &event.shape {
        Shape::Struct(_, fields) => fields.iter().any(|field| collects(field, serde.rename_all.1)),
        Shape::Enum(variants) => variants.iter().any(|variant| {
            let casing = variant.serde.rename_all.1.or(serde.rename_all_fields.1);
            // A newtype variant is read as its content, of which nothing is known.
            variant.fields.iter().any(|field| field.ident.is_none() || collects(field, casing))
        }),
        Shape::Union => false,
    };
    inside || serde.deny_unknown_fields || serde.from
}

fn collects(field: &Field<'_>, casing: Option<Casing>) -> bool {
    let serde = &field.serde;
    let read = match (&serde.rename.1, field.ident, casing) {
        (Some(rename), _, _) => Some(rename.clone()),
        (None, Some(ident), Some(casing)) => Some(casing.field(&ident.unraw().to_string())),
        (None, Some(ident), None) => Some(ident.unraw().to_string()),
        (None, None, _) => None,
    };
    let mut names = serde.aliases.iter().chain(&read);
    serde.flatten || (!serde.skip_deserializing && names.any(|name| FLAT_FIELDS.contains(&name.as_str())))
}

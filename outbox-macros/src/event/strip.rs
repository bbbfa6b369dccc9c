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

#[cfg(test)]
mod tests {
    use syn::{DeriveInput, parse_quote};

    use super::*;
    use crate::common::errors::Errors;
    use crate::event::parse;

    #[test]
    fn what_would_meet_a_field_of_the_envelope_is_kept_from_it() {
        let table: [(DeriveInput, bool); 14] = [
            (
                parse_quote!(
                    struct E {
                        a: u8,
                    }
                ),
                false,
            ),
            (
                parse_quote!(
                    struct E {
                        event_id: u8,
                    }
                ),
                false,
            ),
            (
                parse_quote!(
                    #[serde(rename_all = "camelCase")]
                    struct E {
                        event_id: u8,
                    }
                ),
                true,
            ),
            (
                parse_quote!(
                    #[serde(rename_all(serialize = "camelCase"))]
                    struct E {
                        event_id: u8,
                    }
                ),
                false,
            ),
            (
                parse_quote!(
                    #[serde(rename_all(deserialize = "camelCase"))]
                    struct E {
                        event_id: u8,
                    }
                ),
                true,
            ),
            (
                parse_quote!(
                    #[serde(deny_unknown_fields)]
                    struct E {
                        a: u8,
                    }
                ),
                true,
            ),
            (
                parse_quote!(
                    struct E {
                        #[serde(default, flatten)]
                        a: Map,
                    }
                ),
                true,
            ),
            (
                parse_quote!(
                    struct E {
                        #[serde(alias = "eventId")]
                        a: u8,
                    }
                ),
                true,
            ),
            (
                parse_quote!(
                    struct E {
                        #[serde(rename(deserialize = "eventType"))]
                        a: u8,
                    }
                ),
                true,
            ),
            (
                parse_quote!(
                    struct E {
                        #[serde(skip, rename = "eventType")]
                        a: u8,
                    }
                ),
                false,
            ),
            (
                parse_quote!(
                    #[serde(bound(serialize = "T: X"), crate = "s", try_from = "Raw")]
                    struct E {
                        a: u8,
                    }
                ),
                true,
            ),
            (
                parse_quote!(
                    #[serde(tag = "type")]
                    enum E {
                        A { a: u8 },
                        B,
                    }
                ),
                false,
            ),
            (
                parse_quote!(
                    #[serde(tag = "type")]
                    enum E {
                        A(Inner),
                    }
                ),
                true,
            ),
            (
                parse_quote!(
                    #[serde(tag = "t", rename_all_fields = "camelCase")]
                    enum E {
                        A { event_id: u8 },
                    }
                ),
                true,
            ),
        ];
        for (item, want) in &table {
            let event = parse::parse(item, &mut Errors::default());
            assert_eq!(needed(&event), *want, "{}", quote::quote!(#item));
        }
    }
}

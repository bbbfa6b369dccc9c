//! What the flat envelope asks of a type: serde writes it as a JSON object, and no field of it has a name of the envelope.
//!
//! What cannot be seen here (a `Serialize` by hand, `#[serde(into = ..)]`, a flattened field, a newtype variant) is checked when it is encoded.

use quote::ToTokens;
use syn::ext::IdentExt;

use crate::common::errors::Errors;
use crate::event::FLAT_FIELDS;
use crate::event::casing::Casing;
use crate::event::model::{Envelope, Event, Field, Form, Shape, Variant};
use crate::event::rules;

pub(super) fn validate(event: &Event<'_>, errors: &mut Errors) {
    let flat = event.envelope.as_ref().is_none_or(|envelope| **envelope == Envelope::Flat);
    if !flat || event.envelope_unread || event.serde.into {
        return;
    }
    let name = event.ident.unraw();
    if let Some(transparent) = &event.serde.transparent {
        errors.push(rules::flat_transparent(transparent.source(), &name));
        return;
    }
    // `#[serde(tag = "..")]` is a field, too, of a struct and of an enum; `content` is one beside it.
    for (what, extra) in [("the tag", &event.serde.tag), ("the content", &event.serde.content)] {
        if let Some(extra) = extra {
            collision(extra, what, extra.source(), errors);
        }
    }
    match &event.shape {
        Shape::Struct(Form::Named, fields) => collisions(fields, event.serde.rename_all.0, errors),
        Shape::Struct(Form::Unit, _) => errors.push(rules::flat_unit(event.ident, &name)),
        Shape::Struct(Form::Tuple, _) => errors.push(rules::flat_tuple(event.ident, &name)),
        Shape::Enum(variants) => variants_are_objects(event, variants, errors),
        Shape::Union => {}
    }
}

fn variants_are_objects(event: &Event<'_>, variants: &[Variant<'_>], errors: &mut Errors) {
    if let Some(untagged) = &event.serde.untagged {
        errors.push(rules::flat_untagged(untagged.source(), &event.ident.unraw()));
        return;
    }
    if event.serde.tag.is_none() {
        errors.push(rules::flat_enum(event.ident, &event.ident.unraw()));
        return;
    }
    let under_content = event.serde.content.is_some();
    for variant in variants.iter().filter(|variant| !variant.serde.skip_serializing) {
        if let Some(untagged) = &variant.serde.untagged {
            if variant.form != Form::Named {
                errors.push(rules::flat_untagged(untagged.source(), &variant.ident.unraw()));
                continue;
            }
        } else if under_content {
            continue;
        }
        let casing = variant.serde.rename_all.0.or(event.serde.rename_all_fields.0);
        collisions(&variant.fields, casing, errors);
    }
}

fn collisions(fields: &[Field<'_>], casing: Option<Casing>, errors: &mut Errors) {
    for field in fields.iter().filter(|field| !field.serde.skip_serializing && !field.serde.flatten) {
        let Some(ident) = field.ident else { continue };
        let name = ident.unraw().to_string();
        let written = match (&field.serde.rename.0, casing) {
            (Some(rename), _) => (**rename).clone(),
            (None, Some(casing)) => casing.field(&name),
            (None, None) => name.clone(),
        };
        collision(&written, &format!("the field `{name}`"), ident, errors);
    }
}

fn collision(written: &str, what: &str, at: &dyn ToTokens, errors: &mut Errors) {
    if FLAT_FIELDS.contains(&written) {
        errors.push(rules::flat_collision(at, &what, &written));
    }
}

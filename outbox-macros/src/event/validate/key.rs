//! The field that `key` names.

use syn::Ident;
use syn::ext::IdentExt;

use crate::common::errors::Errors;
use crate::common::suggest;
use crate::event::model::{Event, Field, Shape};
use crate::event::rules;

pub(super) fn validate(event: &Event<'_>, errors: &mut Errors) {
    let Some(key) = &event.key else { return };
    let name = event.ident.unraw();
    match &event.shape {
        Shape::Struct(_, fields) => check(key, &format!("`{name}`"), fields, errors),
        // Any variant must have a key: its order and its routing depend on it.
        Shape::Enum(variants) => {
            for variant in variants {
                check(key, &format!("`{name}::{}`", variant.ident.unraw()), &variant.fields, errors);
            }
        }
        Shape::Union => {}
    }
}

fn check(key: &Ident, owner: &str, fields: &[Field<'_>], errors: &mut Errors) {
    let names: Vec<String> =
        fields.iter().filter_map(|field| field.ident).map(|name| name.unraw().to_string()).collect();
    let name = key.unraw().to_string();
    if names.contains(&name) {
        return;
    }
    if names.is_empty() {
        errors.push(rules::key_unnamed(key, &owner));
        return;
    }
    let known = || names.iter().map(String::as_str);
    errors.push(rules::key_unknown(key, &name, &owner, &suggest::hint(&name, known()), &suggest::list(known())));
}

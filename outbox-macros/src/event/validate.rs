//! The checks of `#[event]`.

mod flat;
mod key;
mod policy;

use syn::ext::IdentExt;

use crate::common::errors::Errors;
use crate::common::names;
use crate::common::spanned::call_site;
use crate::event::model::{Event, Shape};
use crate::event::rules;

pub(super) fn validate(event: &Event<'_>, errors: &mut Errors) {
    let name = event.ident.unraw();
    if !event.name_given {
        errors.push(rules::name_missing(&call_site(event.ident)));
    }
    names::event(event.name.as_ref(), errors);
    names::exchange(event.exchange.as_ref(), errors);
    names::aggregate(event.aggregate.as_ref(), errors);
    if !event.generics.params.is_empty() {
        errors.push(rules::generics(&event.generics.params, &name));
    }
    policy::validate(event, errors);
    if matches!(event.shape, Shape::Union) {
        errors.push(rules::union_item(event.ident, &name));
        return;
    }
    key::validate(event, errors);
    flat::validate(event, errors);
}

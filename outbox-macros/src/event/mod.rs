//! `#[event]`, in two steps: the attribute re-emits the item with a hidden derive, and the derive does the work. A derive sees the item as
//! serde's derives see it, every `cfg_attr` expanded.

mod attribute;
mod casing;
mod expand;
mod fallback;
mod methods;
mod model;
mod parse;
mod rules;
mod serde;
mod strip;
mod validate;

use proc_macro2::TokenStream;
use syn::DeriveInput;

use crate::common::errors::Errors;

pub(crate) use self::attribute::attribute;

/// The name of the helper attribute that carries the settings.
const HELPER: &str = "__outbox_event";

/// The fields of a flat body that are not the event's own.
const FLAT_FIELDS: [&str; 4] = ["eventId", "eventType", "occurredAt", "eventVersion"];

pub(crate) fn derive(input: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(input) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut errors = Errors::default();
    let event = parse::parse(&input, &mut errors);
    validate::validate(&event, &mut errors);
    match errors.into_tokens() {
        None => expand::expand(&event),
        Some(errors) => fallback::expand(&event, errors),
    }
}

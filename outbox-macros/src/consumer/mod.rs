//! `consumer! { .. }`

mod expand;
mod model;
mod parse;
mod rules;
mod validate;

use proc_macro2::TokenStream;

use crate::common::errors::Errors;

pub(crate) fn consumer(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let consumer = parse::parse(input, &mut errors);
    validate::validate(&consumer, &mut errors);
    errors.into_tokens().unwrap_or_else(|| expand::expand(&consumer))
}

//! `#[handler]`: the function stays as it is; a descriptor and its registration are put beside it.

mod expand;
mod lifetimes;
mod model;
mod parse;
mod rules;
mod validate;

use proc_macro2::TokenStream;
use quote::quote;
use syn::ItemFn;

use crate::common::errors::Errors;
use crate::common::item;

pub(crate) fn handler(settings: TokenStream, item: TokenStream) -> TokenStream {
    let Ok(function) = syn::parse2::<ItemFn>(item.clone()) else {
        let error = rules::item_kind(&item::place(&item)).to_compile_error();
        return quote!(#error #item);
    };
    let mut errors = Errors::default();
    let handler = parse::parse(settings, &function, &mut errors);
    validate::validate(&handler, &mut errors);
    let added = errors.into_tokens().unwrap_or_else(|| expand::expand(&handler));
    quote!(#item #added)
}

//! What an attribute stands on.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;

use crate::common::spanned::at;

/// The keyword that says what the item is: its first word but `pub`. Attributes and `pub(..)` come as groups.
pub(crate) fn keyword(item: &TokenStream) -> Option<Ident> {
    item.clone().into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident != "pub" => Some(ident),
        _ => None,
    })
}

/// A place for an error about the whole item.
pub(crate) fn place(item: &TokenStream) -> TokenStream {
    keyword(item).map_or_else(|| at(Span::call_site()), |keyword| keyword.to_token_stream())
}

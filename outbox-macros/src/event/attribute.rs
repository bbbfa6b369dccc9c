//! The first step: from the attribute to the derive.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;

use crate::common::krate;
use crate::common::spanned::at;
use crate::event::{HELPER, rules};

pub(crate) fn attribute(settings: TokenStream, item: TokenStream) -> TokenStream {
    let error = match kind(&item) {
        Some(_) if is_event(&item) => Some(rules::event_twice(&at(Span::call_site()))),
        Some(kind) if kind == "struct" || kind == "enum" || kind == "union" => None,
        other => Some(rules::item_kind(&other.map_or_else(|| at(Span::call_site()), |kind| quote!(#kind)))),
    };
    if let Some(error) = error {
        let error = error.to_compile_error();
        return quote!(#error #item);
    }
    let krate = krate::peek(settings.clone());
    let helper = Ident::new(HELPER, Span::call_site());
    quote! {
        #[derive(#krate::__private::Event)]
        #[#helper(#settings)]
        #item
    }
}

/// The keyword that says what the item is. Attributes and `pub(..)` come as groups.
fn kind(item: &TokenStream) -> Option<Ident> {
    item.clone().into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident != "pub" => Some(ident),
        _ => None,
    })
}

/// Whether an `#[event]` has been here before.
fn is_event(item: &TokenStream) -> bool {
    item.clone().into_iter().any(|token| match token {
        TokenTree::Group(attribute) => matches!(
            attribute.stream().into_iter().next(),
            Some(TokenTree::Ident(ident)) if ident == HELPER
        ),
        _ => false,
    })
}

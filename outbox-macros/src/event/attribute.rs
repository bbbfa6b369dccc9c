//! The first step: from the attribute to the derive.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;

use crate::common::item;
use crate::common::krate::Krate;
use crate::common::spanned::call_site;
use crate::event::{HELPER, rules};

pub(crate) fn attribute(settings: TokenStream, item: TokenStream) -> TokenStream {
    let error = match item::keyword(&item) {
        Some(_) if is_event(&item) => Some(rules::event_twice(&call_site(&item))),
        Some(keyword) if keyword == "struct" || keyword == "enum" || keyword == "union" => None,
        _ => Some(rules::item_kind(&item::place(&item))),
    };
    if let Some(error) = error {
        let error = error.to_compile_error();
        return quote!(#error #item);
    }
    let krate = Krate::peek(settings.clone());
    let helper = Ident::new(HELPER, Span::call_site());
    quote! {
        #[derive(#krate::__private::Event)]
        #[#helper(#settings)]
        #item
    }
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

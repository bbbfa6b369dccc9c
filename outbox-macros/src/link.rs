//! `link!(..)`: crates that are linked although nothing of them is named.

mod rules {
    //! The rules of `link!`.

    rules! {
        crate_expected() = "`link!` takes names of crates as they are written in code: `outbox::link!(orders, billing_events)`";
        crate_missing() = "`link!` needs the names of the crates to link: `outbox::link!(orders, billing)`";
    }
}

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::Ident;

use crate::common::args;
use crate::common::errors::Errors;
use crate::common::spanned::at;

pub(crate) fn link(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let pieces = args::split(input);
    if pieces.is_empty() {
        errors.push(rules::crate_missing(&at(Span::call_site())));
    }
    let crates: Vec<Ident> = pieces.into_iter().filter_map(|piece| errors.keep(name(piece))).collect();
    errors
        .into_tokens()
        .unwrap_or_else(|| crates.iter().map(|name| quote_spanned!(name.span()=> use ::#name as _;)).collect())
}

fn name(piece: Vec<TokenTree>) -> syn::Result<Ident> {
    let tokens: TokenStream = piece.into_iter().collect();
    syn::parse2(tokens.clone()).map_err(|_| rules::crate_expected(&tokens))
}

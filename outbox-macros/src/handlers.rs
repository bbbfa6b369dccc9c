//! `handlers![..]`: explicit registration.

mod rules {
    //! The rules of `handlers!`.

    rules! {
        path_expected() = "`handlers!` lists the paths of `#[handler]` functions: `handlers![orders::reserve_stock]`";
    }
}

use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Ident, Path};

use crate::common::args;
use crate::common::errors::Errors;

pub(crate) fn handlers(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let paths: Vec<Path> = args::split(input).into_iter().filter_map(|piece| errors.keep(descriptor(piece))).collect();
    if let Some(errors) = errors.into_tokens() {
        // A block with a value: `let list = handlers![..];` has no second error.
        return quote!({ #errors [] as [&'static ::outbox::__private::HandlerDescriptor; 0] });
    }
    let count = paths.len();
    quote!({
        let handlers: [&'static ::outbox::__private::HandlerDescriptor; #count] = [#(&#paths),*];
        handlers
    })
}

/// The static that `#[handler]` puts beside the function.
pub(crate) fn static_of(function: &Ident) -> Ident {
    format_ident!("__outbox_handler_{}", function.unraw(), span = function.span())
}

fn descriptor(piece: Vec<TokenTree>) -> syn::Result<Path> {
    let tokens: TokenStream = piece.into_iter().collect();
    let Ok(mut path) = syn::parse2::<Path>(tokens.clone()) else { return Err(rules::path_expected(&tokens)) };
    let plain = path.segments.iter().all(|segment| segment.arguments.is_none());
    match path.segments.last_mut() {
        Some(last) if plain => last.ident = static_of(&last.ident),
        _ => return Err(rules::path_expected(&tokens)),
    }
    Ok(path)
}

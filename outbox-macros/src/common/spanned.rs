//! A value with the tokens that it was read from, so that every later check can point at them.

use std::ops::Deref;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};

/// A value and its tokens.
#[derive(Clone)]
pub(crate) struct Sp<T> {
    value: T,
    tokens: TokenStream,
}

impl<T> Sp<T> {
    pub(crate) fn new(value: T, tokens: &dyn ToTokens) -> Self {
        Self { value, tokens: tokens.to_token_stream() }
    }

    /// The tokens as they stood in the source.
    pub(crate) fn source(&self) -> &TokenStream {
        &self.tokens
    }
}

impl<T> Deref for Sp<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// A place that has no tokens of its own, such as the whole attribute.
pub(crate) fn at(span: Span) -> TokenStream {
    quote_spanned!(span=> _)
}

/// Where `tokens` stand, but resolved as generated code: lints see an expansion, errors point at the user's tokens.
pub(crate) fn generated(tokens: &dyn ToTokens) -> Span {
    let first = tokens.to_token_stream().into_iter().next();
    first.map_or_else(Span::call_site, |token| Span::call_site().located_at(token.span()))
}

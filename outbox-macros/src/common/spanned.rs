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

/// Where `tokens` begin: code with this span is the user's to the compiler, which then tells an error there and says nothing of macros.
pub(crate) fn place(tokens: &dyn ToTokens) -> Span {
    tokens.to_token_stream().into_iter().next().map_or_else(Span::call_site, |token| token.span())
}

/// The same place for code that has `self` or a local variable in it, which must be generated code's own.
pub(crate) fn generated(tokens: &dyn ToTokens) -> Span {
    Span::call_site().located_at(place(tokens))
}

/// The whole attribute or macro call, seen as the user's code is (see [`place`]).
pub(crate) fn call_site(user: &dyn ToTokens) -> TokenStream {
    at(place(user).located_at(Span::call_site()))
}

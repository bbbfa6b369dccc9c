//! All errors of one item, so that a user meets them in one compilation.

use proc_macro2::TokenStream;

/// Collects errors.
#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// The value, or `None` and the error is kept.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// The `compile_error!`s, if there is an error.
    pub(crate) fn into_tokens(self) -> Option<TokenStream> {
        self.0.map(|all| all.to_compile_error())
    }
}

//! `crate = ::path`: where the macro's user has put `outbox`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Path;

use crate::common::args::{self, Value};
use crate::common::errors::Errors;

/// The path that generated code begins with.
#[derive(Default)]
pub(crate) struct Krate(Option<Path>);

impl Krate {
    /// The given path, if it is absolute. A relative one would be another in each module, and is written by mistake: `crate = outbox`.
    pub(crate) fn new(path: Path) -> Option<Self> {
        let first = path.segments.first().map(|segment| segment.ident.to_string());
        let absolute = path.leading_colon.is_some() || matches!(first.as_deref(), Some("crate" | "$crate"));
        absolute.then_some(Self(Some(path)))
    }

    /// The path in settings that are read, and whose errors are told, later.
    pub(crate) fn peek(settings: TokenStream) -> Self {
        let found = args::parse(settings, &mut Errors::default()).into_iter().find_map(|arg| match arg.value {
            Value::Equals(tokens) if arg.key == "crate" => syn::parse2::<Path>(tokens).ok(),
            _ => None,
        });
        found.and_then(Self::new).unwrap_or_default()
    }

    /// The path for code whose errors are told at a place of the user's.
    pub(crate) fn at(&self, place: Span) -> TokenStream {
        match &self.0 {
            Some(path) => path.to_token_stream(),
            None => quote_spanned!(place=> ::outbox),
        }
    }
}

impl ToTokens for Krate {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match &self.0 {
            Some(path) => path.to_tokens(tokens),
            None => tokens.extend(quote!(::outbox)),
        }
    }
}

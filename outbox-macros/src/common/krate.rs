//! `crate = ::path`: where the macro's user has put `outbox`.

use proc_macro2::TokenStream;
use syn::{Path, parse_quote};

use crate::common::args::{self, Value};
use crate::common::errors::Errors;

/// `::outbox`
pub(crate) fn default() -> Path {
    parse_quote!(::outbox)
}

/// A relative path would be another one in each module, and is taken for one by mistake: `crate = outbox`.
pub(crate) fn is_absolute(path: &Path) -> bool {
    let first = path.segments.first().map(|segment| segment.ident.to_string());
    path.leading_colon.is_some() || matches!(first.as_deref(), Some("crate" | "$crate"))
}

/// The path in settings that are read, and whose errors are told, later.
pub(crate) fn peek(settings: TokenStream) -> Path {
    let found = args::parse(settings, &mut Errors::default()).into_iter().find_map(|arg| match arg.value {
        Value::Equals(tokens) if arg.key == "crate" => syn::parse2::<Path>(tokens).ok(),
        _ => None,
    });
    found.filter(is_absolute).unwrap_or_else(default)
}

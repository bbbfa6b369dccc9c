//! A name: a string literal, or the path of a `&'static str` constant.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::{Ident, LitStr, Path};

use crate::common::krate::Krate;
use crate::common::spanned::{Sp, place};

/// A name.
#[derive(Clone)]
pub(crate) enum Text {
    Literal(LitStr),
    Path(Path),
}

impl Text {
    pub(crate) fn parse(tokens: TokenStream) -> Option<Self> {
        let literal = syn::parse2(tokens.clone()).map(Self::Literal);
        literal.or_else(|_| syn::parse2(tokens).map(Self::Path)).ok()
    }
}

impl ToTokens for Text {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Literal(literal) => literal.to_tokens(tokens),
            Self::Path(path) => path.to_tokens(tokens),
        }
    }
}

impl ToTokens for Sp<Text> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        (**self).to_tokens(tokens);
    }
}

/// A compile-time check of a name that the macro cannot read; nothing for a literal, which was checked.
pub(crate) fn check(text: Option<&Sp<Text>>, krate: &Krate, function: &str) -> Option<TokenStream> {
    let text = text?;
    let Text::Path(path) = &**text else { return None };
    let span = place(path);
    let krate = krate.at(span);
    let function = Ident::new(function, span);
    Some(quote_spanned!(span=> const _: () = #krate::__private::#function(#path);))
}

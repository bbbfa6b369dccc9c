//! Lifetimes of a function's arguments mean nothing outside its signature.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericParam, Generics, Type};

/// The type with `'_` and the function's own lifetimes replaced. Lifetimes of a `for<'a>` within it stay.
pub(super) fn replaced(ty: &Type, generics: &Generics, by: &str) -> TokenStream {
    let own: Vec<String> = generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Lifetime(lifetime) => Some(lifetime.lifetime.ident.to_string()),
            _ => None,
        })
        .chain(["_".to_owned()])
        .collect();
    replace(ty.to_token_stream(), &own, by)
}

fn replace(tokens: TokenStream, own: &[String], by: &str) -> TokenStream {
    let mut after_quote = false;
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(name) if after_quote && own.contains(&name.to_string()) => {
                after_quote = false;
                Ident::new(by, name.span()).into()
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), replace(group.stream(), own, by));
                inner.set_span(group.span());
                inner.into()
            }
            token => {
                after_quote = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '\'');
                token
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::parse_quote;

    use super::*;

    #[test]
    fn only_lifetimes_of_the_function_are_replaced() {
        let generics: Generics = parse_quote!(<'c>);
        let table: [(Type, TokenStream); 5] = [
            (parse_quote!(PgTransaction<'_>), quote!(PgTransaction<'static>)),
            (parse_quote!(Transaction<'c, Postgres>), quote!(Transaction<'static, Postgres>)),
            (parse_quote!(Box<dyn for<'x> Fn(&'x str, &'c str)>), quote!(Box<dyn for<'x> Fn(&'x str, &'static str)>)),
            (parse_quote!([Tx<'_>; 2]), quote!([Tx<'static>; 2])),
            (parse_quote!(c::Event), quote!(c::Event)),
        ];
        for (ty, want) in table {
            assert_eq!(replaced(&ty, &generics, "static").to_string(), want.to_string());
        }
    }
}

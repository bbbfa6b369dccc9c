//! The function to the model.

use proc_macro2::TokenStream;
use syn::{FnArg, ItemFn, ReturnType, Type};

use crate::common::errors::Errors;
use crate::common::keys::{Key, Keys};
use crate::handler::model::{Argument, Handler, Passing};
use crate::settings;

const CONSUMER: Key =
    Key { name: "consumer", expects: "a string or the path of a constant", example: r#"consumer = "inventory""# };
const CRATE: Key = Key { name: "crate", expects: "a path", example: "crate = ::outbox" };

pub(super) fn parse<'a>(settings: TokenStream, function: &'a ItemFn, errors: &mut Errors) -> Handler<'a> {
    let known = [&CONSUMER].into_iter().chain(settings::parse::KEYS).chain([&CRATE]).collect();
    let mut keys = Keys::parse("`#[handler]`", known, settings, errors);
    Handler {
        krate: keys.krate(),
        consumer_given: keys.given("consumer"),
        consumer: keys.text("consumer"),
        settings: settings::parse::parse(&mut keys),
        arguments: function.sig.inputs.iter().filter_map(argument).collect(),
        output: match &function.sig.output {
            ReturnType::Type(_, ty) => Some(ty),
            ReturnType::Default => None,
        },
        function,
    }
}

fn argument(input: &FnArg) -> Option<Argument<'_>> {
    let FnArg::Typed(typed) = input else { return None };
    let (passing, ty) = match bare(&typed.ty) {
        Type::Reference(reference) if reference.mutability.is_some() => (Passing::Mutable, &*reference.elem),
        Type::Reference(reference) => (Passing::Shared, &*reference.elem),
        other => (Passing::Value, other),
    };
    Some(Argument { whole: &typed.ty, ty: bare(ty), passing })
}

/// A type that a `macro_rules!` passes on stands in a group; parentheses mean nothing.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        other => other,
    }
}

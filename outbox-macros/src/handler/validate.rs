//! The checks of `#[handler]` that need no types; the bounds are the compiler's, see `expand.rs`.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{GenericParam, Safety, Type};

use crate::common::errors::Errors;
use crate::common::names;
use crate::common::spanned::call_site;
use crate::handler::model::{Argument, Handler, Passing};
use crate::handler::rules;
use crate::settings;

pub(super) fn validate(handler: &Handler<'_>, errors: &mut Errors) {
    if !handler.consumer_given {
        errors.push(rules::consumer_missing(&call_site(&handler.function.sig.ident)));
    }
    names::consumer(handler.consumer.as_ref(), errors);
    settings::validate::validate(&handler.settings, errors);
    signature(handler, errors);
    event(handler, errors);
    for argument in &handler.arguments {
        if mentions(argument.whole, "impl") {
            errors.push(rules::impl_trait(argument.whole));
        }
    }
    for argument in handler.arguments.iter().skip(1).filter(|argument| argument.passing == Passing::Shared) {
        errors.push(rules::shared_reference(argument.whole, &source(argument.ty)));
    }
    taken_twice(&handler.arguments, errors);
    match handler.output {
        None => errors.push(rules::output_missing(&handler.function.sig.ident)),
        Some(output) if mentions(output, "impl") => errors.push(rules::impl_trait(output)),
        Some(_) => {}
    }
}

fn signature(handler: &Handler<'_>, errors: &mut Errors) {
    let signature = &handler.function.sig;
    let name = signature.ident.unraw();
    if signature.asyncness.is_none() {
        errors.push(rules::not_async(&signature.fn_token, &name));
    }
    if let Some(token) = &signature.constness {
        errors.push(rules::const_fn(token));
    }
    if let Safety::Unsafe(token) = &signature.safety {
        errors.push(rules::unsafe_fn(token));
    }
    if let Some(abi) = &signature.abi {
        errors.push(rules::extern_fn(abi));
    }
    if let Some(receiver) = signature.receiver() {
        errors.push(rules::method(receiver));
    } else if let Some(argument) = handler.arguments.iter().find(|argument| mentions(argument.whole, "Self")) {
        errors.push(rules::method(argument.whole));
    }
    let generic = |parameter: &&GenericParam| !matches!(parameter, GenericParam::Lifetime(_));
    for parameter in signature.generics.params.iter().filter(generic) {
        errors.push(rules::generics(parameter, &name));
    }
}

fn event(handler: &Handler<'_>, errors: &mut Errors) {
    let signature = &handler.function.sig;
    match handler.arguments.first() {
        None if signature.receiver().is_none() => errors.push(rules::event_missing(&signature.ident)),
        Some(argument) if argument.passing == Passing::Mutable => errors.push(rules::event_first(argument.whole)),
        Some(argument) if argument.passing == Passing::Shared => {
            errors.push(rules::event_by_reference(argument.whole, &source(argument.ty)));
        }
        _ => {}
    }
}

/// What can be seen by name; an alias is found by the compiler, in `one_database`, or at the first run.
fn taken_twice(arguments: &[Argument<'_>], errors: &mut Errors) {
    let named = |names: &'static [&str]| {
        let mutable = arguments.iter().skip(1).filter(|argument| argument.passing == Passing::Mutable);
        mutable
            .filter(move |argument| last_segment(argument.ty).is_some_and(|last| names.contains(&last.as_str())))
            .skip(1)
    };
    for argument in named(&["PgConnection", "PgTransaction", "Transaction"]) {
        errors.push(rules::database_twice(argument.whole));
    }
    for argument in named(&["Emit"]) {
        errors.push(rules::emit_twice(argument.whole));
    }
}

fn last_segment(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

fn mentions(ty: &Type, word: &str) -> bool {
    fn search(tokens: TokenStream, word: &str) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == word,
            TokenTree::Group(group) => search(group.stream(), word),
            _ => false,
        })
    }
    search(ty.to_token_stream(), word)
}

/// A type as one would write it.
fn source(ty: &Type) -> String {
    let mut text = ty.to_token_stream().to_string();
    for (spaced, tight) in
        [(" :: ", "::"), (":: ", "::"), (" <", "<"), ("< ", "<"), (" >", ">"), (" ,", ","), ("& ", "&")]
    {
        text = text.replace(spaced, tight);
    }
    text
}

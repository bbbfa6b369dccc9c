//! The model to code: a descriptor, and a function that makes the arguments and calls the handler.
//!
//! The code names each argument's type, and the return type, at its own place: a bound that does not hold is told there.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{PathArguments, Type};

use crate::common::spanned::place;
use crate::common::text;
use crate::handler::lifetimes::replaced;
use crate::handler::model::{Argument, Handler, Passing};
use crate::handlers::static_of;
use crate::settings;

pub(super) fn expand(handler: &Handler<'_>) -> TokenStream {
    let Handler { function, krate, consumer, .. } = handler;
    let check_consumer = text::check(consumer.as_ref(), krate, "check_consumer_name");
    let check_queue = text::check(handler.settings.queue.as_ref(), krate, "check_queue_name");
    let cfgs: Vec<_> = function.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect();
    let vis = &function.vis;
    let name = function.sig.ident.unraw().to_string();
    let descriptor = static_of(&function.sig.ident);
    let descriptor = Ident::new(&descriptor.to_string(), place(&function.sig.ident));
    let settings = settings::expand::expand(&handler.settings, krate);
    let event = handler.arguments.first().map(|argument| event(handler, argument));
    let databases = handler.arguments.iter().filter(|argument| argument.passing == Passing::Mutable);
    let databases = databases.map(|argument| database(handler, argument));
    let requirements = handler.arguments.iter().skip(1).filter(|argument| argument.passing == Passing::Value);
    let requirements = requirements.map(|argument| requirement(handler, argument));
    let body = body(handler);
    quote! {
        #(#cfgs)*
        #[doc(hidden)]
        #[allow(non_upper_case_globals, unreachable_pub, unused_qualifications, deprecated)]
        #vis static #descriptor: #krate::__private::HandlerDescriptor = {
            #check_consumer
            #check_queue
            fn __outbox_requires(__outbox: &mut #krate::__private::Requirements) {
                let _ = &__outbox;
                #(#requirements)*
            }
            const fn __outbox_database() -> ::core::option::Option<#krate::__private::DatabaseKind> {
                #krate::__private::one_database(&[#(#databases),*])
            }
            fn __outbox_call<'a>(
                __outbox: &'a mut #krate::__private::Call<'_, '_>,
            ) -> #krate::__private::BoxFuture<'a, #krate::__private::HandlerResult> {
                #body
            }
            #krate::__private::HandlerDescriptor {
                consumer: #consumer,
                name: #name,
                module: ::core::module_path!(),
                file: ::core::file!(),
                line: ::core::line!(),
                event: #event,
                settings: #settings,
                database: __outbox_database(),
                requires: __outbox_requires,
                call: __outbox_call,
            }
        };
        #(#cfgs)*
        const _: () = {
            #krate::__private::register! { Handler, &#descriptor }
        };
    }
}

/// `<T as Trait>`, told at `T`.
fn cast(handler: &Handler<'_>, ty: &Type, name: &str) -> TokenStream {
    let span = place(ty);
    let krate = handler.krate.at(span);
    let ty = replaced(ty, &handler.function.sig.generics, "_");
    let name: TokenStream = match name {
        "CallArgument" => quote_spanned!(span=> CallArgument<'_>),
        name => Ident::new(name, span).to_token_stream(),
    };
    quote_spanned!(span=> <#ty as #krate::__private::#name>)
}

fn event(handler: &Handler<'_>, argument: &Argument<'_>) -> TokenStream {
    let argument = cast(handler, argument.ty, "EventArgument");
    quote!(#argument::DESCRIPTOR)
}

fn database(handler: &Handler<'_>, argument: &Argument<'_>) -> TokenStream {
    let argument = cast(handler, argument.ty, "CallArgument");
    quote!(#argument::DATABASE)
}

fn requirement(handler: &Handler<'_>, argument: &Argument<'_>) -> TokenStream {
    let argument = cast(handler, argument.ty, "FromDelivery");
    quote!(#argument::requires(__outbox);)
}

/// No name of its own may be one that a handler could have: a handler called `call` is called, not a local variable.
fn body(handler: &Handler<'_>) -> TokenStream {
    let krate = &handler.krate;
    let function = &handler.function.sig.ident;
    let names: Vec<Ident> = (0..handler.arguments.len()).map(|index| format_ident!("__outbox_{index}")).collect();
    let values = handler.arguments.iter().enumerate().map(|(index, argument)| value(handler, index, argument));
    let finish = handler.output.map(|output| finish(handler, output));
    let future = quote! {
        let __outbox = {
            let mut __outbox = __outbox.parts();
            #(let #names = #values;)*
            #function(#(#names),*)
        };
        let __outbox = __outbox.await;
        #finish
    };
    // A future that is not `Send` is told at the function's name.
    let span = place(function);
    let future = group(Delimiter::Brace, future, span);
    let future = group(Delimiter::Parenthesis, quote_spanned!(span=> async move #future), span);
    let pin = quote_spanned!(span=> ::std::boxed::Box::pin #future);
    quote!(let __outbox: #krate::__private::BoxFuture<'a, #krate::__private::HandlerResult> = #pin; __outbox)
}

/// Local variables stand outside of what is spanned: in a function made by a `macro_rules!` they would be others there.
fn value(handler: &Handler<'_>, index: usize, argument: &Argument<'_>) -> TokenStream {
    match argument.passing {
        Passing::Mutable => {
            let argument = cast(handler, argument.ty, "CallArgument");
            quote!(#argument::take(&mut __outbox)?)
        }
        _ if index == 0 => {
            let argument = cast(handler, argument.ty, "EventArgument");
            quote!(#argument::take(__outbox.delivery)?)
        }
        _ => {
            let argument = cast(handler, argument.ty, "FromDelivery");
            quote!(#argument::from_delivery(__outbox.delivery)?)
        }
    }
}

/// What a result means. Each step infers its type, so that a wrong one is one error, and stands at its part of the return type, with the
/// variable that it takes.
fn finish(handler: &Handler<'_>, output: &Type) -> TokenStream {
    let krate = &handler.krate;
    let (whole, (ok, err)) = (place(output), parameters(output));
    let (at_whole, at_ok, at_err) = (krate.at(whole), krate.at(ok), krate.at(err));
    let result = quote_spanned!(whole=> __outbox_result);
    let value = quote_spanned!(ok=> __outbox_value);
    let (error, class) = (quote_spanned!(err=> __outbox_error), quote_spanned!(err=> __outbox_class));
    let matched = quote_spanned!(whole=> #at_whole::__private::HandlerReturn::into_result(#result));
    let outcome = quote_spanned!(ok=> #at_ok::__private::IntoOutcome::into_outcome(#value));
    let failure = quote_spanned!(err=> #at_err::__private::HandlerFailure::into_handler_error(#error, #class));
    quote! {
        let #result = __outbox;
        match #matched {
            ::core::result::Result::Ok(#value) => #outcome,
            ::core::result::Result::Err(__outbox) => {
                use #krate::__private::ClassifyFallback as _;
                let __outbox = #krate::__private::ErrorProbe(__outbox);
                let #class = __outbox.class();
                let #error = __outbox.0;
                ::core::result::Result::Err(#failure)
            }
        }
    }
}

/// The places of `R` and `E` in `Result<R, E>`; the whole type's where they cannot be seen.
fn parameters(output: &Type) -> (Span, Span) {
    let whole = place(output);
    let Type::Path(path) = output else { return (whole, whole) };
    let Some(PathArguments::AngleBracketed(arguments)) = path.path.segments.last().map(|last| &last.arguments) else {
        return (whole, whole);
    };
    let mut arguments = arguments.args.iter().map(|argument| place(argument));
    (arguments.next().unwrap_or(whole), arguments.next().unwrap_or(whole))
}

fn group(delimiter: Delimiter, tokens: TokenStream, span: Span) -> Group {
    let mut group = Group::new(delimiter, tokens);
    group.set_span(span);
    group
}

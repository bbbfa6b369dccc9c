//! The model to code: a descriptor, and a function that makes the arguments and calls the handler.
//!
//! The code names each argument's type, and the return type, at its own place: a bound that does not hold is told there.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;

use crate::common::spanned::generated;
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
    let descriptor = Ident::new(&descriptor.to_string(), generated(&function.sig.ident));
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
                database: #krate::__private::one_database(&[#(#databases),*]),
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

fn event(handler: &Handler<'_>, argument: &Argument<'_>) -> TokenStream {
    let krate = &handler.krate;
    let ty = replaced(argument.ty, &handler.function.sig.generics, "static");
    quote_spanned! {generated(argument.whole)=>
        <<#ty as #krate::__private::EventArgument>::Event as #krate::__private::Event>::DESCRIPTOR
    }
}

fn database(handler: &Handler<'_>, argument: &Argument<'_>) -> TokenStream {
    let krate = &handler.krate;
    let ty = replaced(argument.ty, &handler.function.sig.generics, "static");
    quote_spanned!(generated(argument.whole)=> <#ty as #krate::__private::CallArgument<'static>>::DATABASE)
}

fn requirement(handler: &Handler<'_>, argument: &Argument<'_>) -> TokenStream {
    let krate = &handler.krate;
    let ty = replaced(argument.ty, &handler.function.sig.generics, "_");
    quote_spanned!(generated(argument.whole)=> <#ty as #krate::__private::FromDelivery>::requires(__outbox);)
}

/// No name of its own may be one that a handler could have: a handler called `call` is called, not a local variable.
fn body(handler: &Handler<'_>) -> TokenStream {
    let krate = &handler.krate;
    let signature = &handler.function.sig;
    let function = &signature.ident;
    let names: Vec<Ident> = (0..handler.arguments.len()).map(|index| format_ident!("__outbox_{index}")).collect();
    let values = handler.arguments.iter().enumerate().map(|(index, argument)| value(handler, index, argument));
    let (output, at_output) = match handler.output {
        Some(ty) => (replaced(ty, &signature.generics, "_"), generated(ty)),
        None => (TokenStream::new(), Span::call_site()),
    };
    let result = quote_spanned!(at_output=> <#output as #krate::__private::HandlerReturn>::into_result(__outbox));
    let outcome = quote_spanned!(at_output=> #krate::__private::IntoOutcome::into_outcome(__outbox));
    let error = quote_spanned!(at_output=> #krate::__private::ErrorProbe(__outbox).into_handler_error());
    // A future that is not `Send` is told at the function's name.
    quote_spanned! {generated(function)=>
        ::std::boxed::Box::pin(async move {
            let __outbox = {
                let mut __outbox = __outbox.parts();
                #(let #names = #values;)*
                #function(#(#names),*)
            };
            let __outbox = __outbox.await;
            match #result {
                ::core::result::Result::Ok(__outbox) => #outcome,
                ::core::result::Result::Err(__outbox) => {
                    use #krate::__private::ClassifyFallback as _;
                    ::core::result::Result::Err(#error)
                }
            }
        })
    }
}

fn value(handler: &Handler<'_>, index: usize, argument: &Argument<'_>) -> TokenStream {
    let krate = &handler.krate;
    let span = generated(argument.whole);
    let ty = replaced(argument.ty, &handler.function.sig.generics, "_");
    match argument.passing {
        Passing::Mutable => quote_spanned!(span=> <#ty as #krate::__private::CallArgument<'_>>::take(&mut __outbox)?),
        _ if index == 0 => quote_spanned!(span=> <#ty as #krate::__private::EventArgument>::take(__outbox.delivery)?),
        _ => quote_spanned!(span=> <#ty as #krate::__private::FromDelivery>::from_delivery(__outbox.delivery)?),
    }
}

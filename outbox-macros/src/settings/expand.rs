//! The model to a `ConsumerSettings` constant.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};

use crate::common::krate::Krate;
use crate::settings::model::Settings;
use crate::settings::times;

pub(crate) fn expand(settings: &Settings, krate: &Krate) -> TokenStream {
    let queue = option(settings.queue.as_ref());
    let concurrency = option(settings.concurrency.as_ref().map(|count| Literal::u32_unsuffixed(**count)));
    let prefetch = option(settings.prefetch.as_ref().map(|count| Literal::u32_unsuffixed(**count)));
    let timeout = option(settings.timeout.as_ref().map(|time| times::expand(**time)));
    let retry = &settings.retry;
    let immediate = option(retry.immediate.as_ref().map(|count| Literal::u32_unsuffixed(**count)));
    let max_attempts = option(retry.max_attempts.as_ref().map(|count| Literal::u32_unsuffixed(**count)));
    let delays = option(retry.delays.as_ref().map(|delays| {
        let (low, high) = (times::expand(delays.0), times::expand(delays.1));
        quote!((#low, #high))
    }));
    quote! {
        #krate::__private::ConsumerSettings {
            queue: #queue,
            concurrency: #concurrency,
            prefetch: #prefetch,
            timeout: #timeout,
            retry: #krate::__private::RetrySettings {
                immediate: #immediate,
                delays: #delays,
                max_attempts: #max_attempts,
            },
        }
    }
}

fn option(value: Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

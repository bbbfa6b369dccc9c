//! The model to a registration.

use proc_macro2::TokenStream;
use quote::quote;

use crate::common::text;
use crate::consumer::model::Consumer;
use crate::settings;

pub(super) fn expand(consumer: &Consumer) -> TokenStream {
    let Consumer { krate, name, settings, .. } = consumer;
    let check_name = text::check(name.as_ref(), krate, "check_consumer_name");
    let check_queue = text::check(settings.queue.as_ref(), krate, "check_queue_name");
    let settings = settings::expand::expand(settings, krate);
    quote! {
        const _: () = {
            #check_name
            #check_queue
            static __OUTBOX_CONSUMER: #krate::__private::ConsumerDescriptor = #krate::__private::ConsumerDescriptor {
                name: #name,
                settings: #settings,
                file: ::core::file!(),
                line: ::core::line!(),
            };
            #krate::__private::register! { Consumer, &__OUTBOX_CONSUMER }
        };
    }
}

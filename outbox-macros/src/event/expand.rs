//! The model to code.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;

use crate::common::spanned::generated;
use crate::common::text;
use crate::event::model::{Envelope, Event, Field, OnFailed, Shape, Unroutable};
use crate::event::{methods, strip};
use crate::settings::times;

pub(super) fn expand(event: &Event<'_>) -> TokenStream {
    let Event { ident, krate, .. } = event;
    let checks = [
        text::check(event.name.as_ref(), krate, "check_event_name"),
        text::check(event.exchange.as_ref(), krate, "check_exchange_name"),
        text::check(event.aggregate.as_ref(), krate, "check_aggregate_name"),
    ];
    let where_clause = &event.generics.where_clause;
    let descriptor = descriptor(event);
    let key = key(event);
    let methods = methods::expand(event);
    quote! {
        const _: () = {
            #(#checks)*

            const __OUTBOX_EVENT: &#krate::__private::EventDescriptor = &#descriptor;

            #[automatically_derived]
            impl #krate::__private::Event for #ident #where_clause {
                const DESCRIPTOR: &'static #krate::__private::EventDescriptor = __OUTBOX_EVENT;

                fn key(&self) -> ::core::option::Option<::std::borrow::Cow<'_, ::core::primitive::str>> {
                    #key
                }
            }

            #methods

            #krate::__private::register! { Event, __OUTBOX_EVENT }
        };
    }
}

fn descriptor(event: &Event<'_>) -> TokenStream {
    let krate = &event.krate;
    let name = &event.name;
    let rust_type = event.ident.unraw().to_string();
    let version = event.version.as_ref().map(|version| {
        let version = Literal::u32_unsuffixed(**version);
        quote!(.version(#version))
    });
    let exchange = event.exchange.as_ref().map(|exchange| quote!(.exchange(#exchange)));
    let aggregate = event.aggregate.as_ref().map(|aggregate| quote!(.aggregate(#aggregate)));
    let envelope = event.envelope.as_ref().map(|envelope| {
        let variant = variant(match **envelope {
            Envelope::Flat => "Flat",
            Envelope::Versioned => "Versioned",
            Envelope::Bare => "Bare",
            Envelope::CloudEvents => "CloudEvents",
        });
        quote!(.envelope(#krate::__private::Envelope::#variant))
    });
    let unroutable = event.unroutable.as_ref().map(|unroutable| {
        let variant = variant(match **unroutable {
            Unroutable::Hold => "Hold",
            Unroutable::Fail => "Fail",
            Unroutable::Discard => "Discard",
        });
        quote!(.unroutable(#krate::__private::Unroutable::#variant))
    });
    let policies = policies(event);
    let strip = strip::needed(event).then(|| quote!(.strip(true)));
    quote! {
        #krate::__private::EventDescriptor::new(
            #name, #rust_type, ::core::module_path!(), ::core::file!(), ::core::line!(),
        ) #version #exchange #aggregate #envelope #unroutable #policies #strip
    }
}

fn policies(event: &Event<'_>) -> TokenStream {
    let krate = &event.krate;
    let ordered = event.ordered.as_ref().map(|_| quote!(.ordered()));
    let max_attempts = event.max_attempts.as_ref().map(|max| {
        let max = Literal::u32_unsuffixed(**max);
        quote!(.max_attempts(#max))
    });
    let max_age = event.max_age.as_ref().map(|age| {
        let age = times::expand(**age);
        quote!(.max_age(#age))
    });
    let on_failed = event.on_failed.as_ref().map(|on_failed| {
        let variant = variant(match **on_failed {
            OnFailed::Block => "Block",
            OnFailed::Skip => "Skip",
        });
        quote!(.on_failed(#krate::__private::OnFailed::#variant))
    });
    let backoff = event.backoff.as_ref().map(|backoff| {
        let (first, longest) = (times::expand(backoff.0), times::expand(backoff.1));
        quote!(.backoff(#first, #longest))
    });
    quote!(#ordered #max_attempts #max_age #on_failed #backoff)
}

fn variant(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}

/// The field's text. Whatever is wrong with its type is told at the name in `key = ..`.
fn key(event: &Event<'_>) -> TokenStream {
    let krate = &event.krate;
    let Some(key) = event.key.as_deref() else { return quote!(::core::option::Option::None) };
    let span = generated(key);
    match &event.shape {
        Shape::Enum(variants) => {
            let arms = variants.iter().map(|variant| {
                let (name, field) = (variant.ident, spelled(key, &variant.fields));
                let text = quote_spanned!(span=> #krate::__private::KeyField::key_text(__outbox_key));
                quote!(Self::#name { #field: ref __outbox_key, .. } => #text)
            });
            quote!(::core::option::Option::Some(match *self { #(#arms,)* }))
        }
        Shape::Struct(_, fields) => {
            let field = spelled(key, fields);
            let text = quote_spanned!(span=> #krate::__private::KeyField::key_text(&self.#field));
            quote!(::core::option::Option::Some(#text))
        }
        Shape::Union => quote!(::core::option::Option::None),
    }
}

/// The field as the item spells it: `key = type` may mean `r#type`.
fn spelled(key: &Ident, fields: &[Field<'_>]) -> Ident {
    let field = fields.iter().filter_map(|field| field.ident).find(|field| field.unraw() == key.unraw());
    let mut field = field.unwrap_or(key).clone();
    field.set_span(key.span());
    field
}

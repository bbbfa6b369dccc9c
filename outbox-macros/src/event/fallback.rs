//! What stands in for an event that has errors, so that its users do not get errors of their own.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;

use crate::event::methods;
use crate::event::model::{Event, Shape};

/// The errors, and an event that is registered nowhere.
pub(super) fn expand(event: &Event<'_>, errors: TokenStream) -> TokenStream {
    // No stub could be right for these.
    if !event.generics.params.is_empty() || matches!(event.shape, Shape::Union) {
        return errors;
    }
    let Event { ident, krate, .. } = event;
    let rust_type = ident.unraw().to_string();
    let where_clause = &event.generics.where_clause;
    let methods = methods::expand(event);
    quote! {
        #errors

        const _: () = {
            #[automatically_derived]
            impl #krate::__private::Event for #ident #where_clause {
                const DESCRIPTOR: &'static #krate::__private::EventDescriptor =
                    &#krate::__private::EventDescriptor::new("", #rust_type, "", "", 0);

                fn key(&self) -> ::core::option::Option<::std::borrow::Cow<'_, ::core::primitive::str>> {
                    ::core::option::Option::None
                }
            }

            #methods
        };
    }
}

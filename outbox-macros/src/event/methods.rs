//! The methods of an event, which the expansion and the stub share.

use proc_macro2::TokenStream;
use quote::quote;

use crate::event::model::Event;

pub(super) fn expand(event: &Event<'_>) -> TokenStream {
    let Event { ident, krate, .. } = event;
    let where_clause = &event.generics.where_clause;
    quote! {
        #[automatically_derived]
        #[allow(dead_code, unreachable_pub, unused_qualifications)]
        impl #ident #where_clause {
            /// Encodes this event for `outbox::enqueue_all`, which writes many in one statement.
            pub fn draft(&self) -> #krate::__private::Draft {
                #krate::__private::Draft::new(self, #krate::__private::Enqueue::new())
            }

            /// Writes this event in the caller's transaction: it exists if, and only if, the transaction commits.
            ///
            /// # Errors
            /// `EnqueueError::Invalid` before anything is sent, if the event cannot be encoded or its key does not fit;
            /// `EnqueueError::Database` with the transaction aborted.
            ///
            /// # Cancel safety
            /// Dropped half-way, the row may or may not be in the transaction: roll it back.
            pub async fn enqueue<__OutboxDb: #krate::__private::Store>(
                &self,
                tx: &mut #krate::__private::Transaction<'_, __OutboxDb>,
            ) -> ::core::result::Result<#krate::__private::EventId, #krate::__private::EnqueueError> {
                #krate::__private::enqueue(self, #krate::__private::Enqueue::new(), tx).await
            }

            /// Writes this event in the caller's transaction, with options: headers, a correlation id, an id of its own, a delay.
            ///
            /// # Errors
            /// As `enqueue`; `EnqueueError::Invalid` also for options that do not fit, and `EnqueueError::Duplicate` for an id
            /// that is in the outbox already, with the transaction still usable.
            ///
            /// # Cancel safety
            /// As `enqueue`.
            pub async fn enqueue_with<__OutboxDb: #krate::__private::Store>(
                &self,
                tx: &mut #krate::__private::Transaction<'_, __OutboxDb>,
                options: #krate::__private::Enqueue,
            ) -> ::core::result::Result<#krate::__private::EventId, #krate::__private::EnqueueError> {
                #krate::__private::enqueue(self, options, tx).await
            }
        }
    }
}

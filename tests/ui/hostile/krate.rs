//! `crate = ..`: `outbox` under another name.

/// As a crate re-exports it.
pub mod re_export {
    pub use outbox as mailbox;
}

mod outbox {}

/// As a macro of a crate that uses this one would write it.
#[macro_export]
macro_rules! event_of_a_macro {
    ($name:ident) => {
        /// An event.
        #[::outbox::event(name = "dollar.crate", crate = $crate::hostile::krate::re_export::mailbox)]
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        pub struct $name {}

        #[::outbox::handler(consumer = "hostile", crate = $crate::hostile::krate::re_export::mailbox)]
        async fn dollar_crate(_: $name) -> ::outbox::Result<()> {
            ::core::result::Result::Ok(())
        }
    };
}

event_of_a_macro!(DollarCrate);

/// An event.
#[::outbox::event(name = "alone", crate = crate::hostile::krate::re_export::mailbox)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Alone {}

//! `crate = ..`: `outbox` under another name.

/// As a crate re-exports it.
pub mod re_export {
    pub use outbox as mailbox;
}

mod outbox {}

/// An event.
#[::outbox::event(name = "alone", crate = crate::hostile::krate::re_export::mailbox)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Alone {}

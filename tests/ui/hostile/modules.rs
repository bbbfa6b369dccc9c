//! Modules with the names of crates.

/// The domain.
pub mod inventory {
    /// Not the standard library.
    pub mod std {}
    /// Not the core library.
    pub mod core {}
    /// Not the allocation library.
    pub mod alloc {}
    /// Not this library.
    pub mod outbox {}
    /// Not that library.
    #[allow(clippy::module_inception)]
    pub mod inventory {}
    /// Not that library, either.
    pub mod linkme {}
    /// Nor that.
    pub mod serde {}

    /// An event.
    #[::outbox::event(name = "in.inventory", key = kind)]
    #[derive(Debug, ::serde::Serialize, ::serde::Deserialize)]
    #[serde(tag = "type")]
    pub enum Moved {
        /// In.
        In {
            /// What.
            kind: u64,
        },
        /// Out.
        Out {
            /// What.
            kind: ::std::string::String,
        },
    }

    #[::outbox::handler(consumer = "hostile")]
    async fn reserve(_event: Moved, _emit: &mut ::outbox::Emit) -> ::outbox::Result<()> {
        Ok(())
    }
}

//! No name comes from a prelude.
#![no_implicit_prelude]

/// An event.
#[::outbox::event(name = "no.prelude", key = id)]
#[derive(Debug, ::serde::Serialize, ::serde::Deserialize)]
pub struct NoPrelude {
    /// Which.
    pub id: ::std::string::String,
}

#[::outbox::handler(consumer = "hostile", queue = "hostile.queue", concurrency = 1)]
async fn no_prelude(_event: NoPrelude, _db: &mut ::sqlx::PgConnection) -> ::outbox::Result<()> {
    ::core::result::Result::Ok(())
}

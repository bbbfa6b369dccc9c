//! Names by path, and the settings of a consumer.

/// Names.
pub mod names {
    /// Of an event.
    pub const EVENT: &str = "const.path";
    /// Of a consumer.
    pub const CONSUMER: &str = "const.consumer";
    /// Of an exchange, a queue, an aggregate.
    pub const OTHER: &str = "other";
}

/// An event.
#[outbox::event(name = names::EVENT, exchange = names::OTHER, aggregate = names::OTHER, envelope = "bare", unroutable = "discard")]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct ByPath;

#[outbox::handler(consumer = names::CONSUMER)]
async fn by_const_path(_: ByPath) -> outbox::Result<()> {
    Ok(())
}

outbox::consumer! {
    name = names::CONSUMER,
    queue = names::OTHER,
    retry(immediate = 1, delays = "1s..10m", max_attempts = 8),
}

outbox::consumer! { name = "hostile", queue = "hostile.queue" }

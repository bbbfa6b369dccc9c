//! The library of a package with binaries: it registers a handler of its own, and says what is linked into the process.

#![forbid(unsafe_code)]

#[outbox::event(name = "link.own")]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Own {}

#[outbox::handler(consumer = "link.own")]
async fn handle(_: Own) -> outbox::Result<()> {
    Ok(())
}

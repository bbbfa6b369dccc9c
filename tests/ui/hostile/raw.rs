//! Raw identifiers.

/// An event.
#[outbox::event(name = "raw", key = type)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct r#Struct {
    /// Which.
    pub r#type: String,
}

#[outbox::handler(consumer = "hostile")]
pub(crate) async fn r#match(r#fn: r#Struct) -> outbox::Result<()> {
    let _ = r#fn;
    Ok(())
}

//! Other attributes on the same item, before and after.

/// An event, whose derives stand before.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[outbox::event(name = "attributes", key = order_id)]
#[non_exhaustive]
pub struct Attributes {
    /// Which.
    #[serde(rename = "id")]
    pub order_id: std::num::NonZeroU64,
    /// It is not there.
    #[cfg(any())]
    pub absent: Absent,
    /// It would collide if it were written.
    #[serde(skip)]
    pub event_id: Option<String>,
}

/// An event that is not there.
#[outbox::event(name = "absent")]
#[cfg(any())]
pub struct Absent {}

#[outbox::handler(consumer = "hostile")]
#[cfg(any())]
async fn absent(_: Absent) -> outbox::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "none"))]
#[outbox::handler(consumer = "hostile")]
#[cfg(not(target_os = "none"))]
#[deprecated = "and still handled"]
#[must_use = "it is a test"]
async fn attributes(#[allow(unused_variables)] event: Attributes) -> outbox::Result<()> {
    Ok(())
}

#[cfg(test)]
mod descriptors {
    use outbox::Event;

    use super::Attributes;

    #[test]
    fn the_derive_sees_what_serde_sees() {
        assert!(Attributes::DESCRIPTOR.strip, "deny_unknown_fields");
        assert_eq!(Attributes::DESCRIPTOR.rust_type, "Attributes");
        assert!(Attributes::DESCRIPTOR.file.ends_with("attributes.rs"));
        assert_eq!(Attributes::DESCRIPTOR.aggregate, "attributes");
    }
}

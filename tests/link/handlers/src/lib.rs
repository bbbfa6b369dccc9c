//! A crate that registers an event, a handler and a consumer, and exports nothing that a binary would name.

#![forbid(unsafe_code)]

mod deep {
    mod deeper {
        #[outbox::event(name = "link.tested")]
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        struct Tested {}

        #[outbox::handler(consumer = "link")]
        async fn handle(_: Tested) -> outbox::Result<()> {
            Ok(())
        }

        outbox::consumer! { name = "link", prefetch = 1 }
    }
}

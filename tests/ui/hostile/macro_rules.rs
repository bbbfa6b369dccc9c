//! Events and handlers made by a `macro_rules!`, and inside a function.

macro_rules! subscribe {
    ($event:ident, $name:literal, $key:ident: $key_type:ty, $handler:ident, $consumer:expr, $database:ty, $($setting:tt)*) => {
        /// An event.
        #[outbox::event(name = $name, key = $key)]
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        pub struct $event {
            /// Which.
            pub $key: $key_type,
        }

        #[outbox::handler(consumer = $consumer, $($setting)*)]
        async fn $handler(event: $event, db: $database) -> sqlx::Result<()> {
            let _ = (event, db);
            Ok(())
        }
    };
}

subscribe!(Made, "generated.by.macro", id: String, by_macro, "hostile", &mut sqlx::PgConnection, prefetch = 1);

/// Items of a function are registered, too.
pub fn function() {
    #[outbox::event(name = "in.fn")]
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Inner {}

    #[outbox::handler(consumer = "hostile")]
    async fn in_fn(_: Inner) -> outbox::Result<()> {
        Ok(())
    }
}

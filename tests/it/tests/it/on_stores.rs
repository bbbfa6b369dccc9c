//! Tests of the producing half alone: one body, on each store.

/// In the body `S` is the store; its argument is a [`Place`](crate::matrix::place::Place) that nobody relays.
macro_rules! on_each_store {
    ($($(#[$about:meta])* async fn $name:ident($place:ident) $body:block)*) => {$(
        $(#[$about])*
        mod $name {
            use super::*;

            async fn body<S: $crate::matrix::stores::TestStore>($place: &$crate::matrix::place::Place<S>) $body

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                let broker = $crate::matrix::place::BrokerKind::Database;
                body(&$crate::matrix::place::Place::<sqlx::Postgres>::new(broker, stringify!($name)).await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                let broker = $crate::matrix::place::BrokerKind::Database;
                body(&$crate::matrix::place::Place::<sqlx::Sqlite>::new(broker, stringify!($name)).await).await;
            }
        }
    )*};
}
pub(crate) use on_each_store;

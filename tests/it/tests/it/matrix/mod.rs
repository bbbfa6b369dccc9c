//! The behaviours that hold on every combination of a store and a broker: each body is written once and runs on all of them.
//!
//! What a combination cannot do is data with a reason (`exceptions`), and the table in docs/guarantees.md is that data. Such a body asks
//! [`place.can()`](place::Place::can) and asserts the other outcome: nothing is skipped.

pub mod exceptions;
pub mod handlers;
pub mod messages;
pub mod place;
pub mod stores;

/// Behaviours: one test per combination from one body. In the body `S` is the store; the place is its argument.
macro_rules! matrix {
    ($($(#[$about:meta])* async fn $name:ident($place:ident) $body:block)*) => {
        /// The names of the behaviours in this file.
        pub const BEHAVIOURS: &[&str] = &[$(stringify!($name)),*];
        $(
            $(#[$about])*
            mod $name {
                use super::*;

                async fn body<S: $crate::matrix::stores::TestStore>($place: &$crate::matrix::place::Place<S>) $body

                on_each_combination!($name);
            }
        )*
    };
}

macro_rules! on_each_combination {
    ($name:ident) => {
        on_each_combination!($name, postgres_rabbitmq, Postgres, RabbitMq);
        on_each_combination!($name, postgres_database, Postgres, Database);
        on_each_combination!($name, sqlite_rabbitmq, Sqlite, RabbitMq);
        on_each_combination!($name, sqlite_database, Sqlite, Database);
    };
    ($name:ident, $test:ident, $store:ident, $broker:ident) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            let broker = $crate::matrix::place::BrokerKind::$broker;
            let place = $crate::matrix::place::Place::<sqlx::$store>::new(broker, stringify!($name)).await;
            body(&place).await;
            place.end().await;
        }
    };
}

mod budgets;
mod corrupt;
mod failing;
mod garbage;
mod keeping;
mod operating;
mod ordering;
mod producing;
mod routing;
mod stopping;

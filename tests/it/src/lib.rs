//! The harness of the end-to-end tests: real databases and vhosts per test, servers that a test may break,
//! a TCP proxy that cuts and stalls, polling, captured logs, and child processes.
//!
//! What a test needs of the shared servers is its own (a database, a vhost) and goes away when the value is dropped.
//! A test that stops, floods or reconfigures a server starts [`OwnBroker`] or [`OwnPostgres`].
//!
//! A missing server is a panic with the cure, never a skipped test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(doctest)]
mod documents;
pub mod guard;
pub mod logs;
pub mod names;
pub mod own_pgbouncer;
pub mod own_postgres;
pub mod own_rabbit;
pub mod postgres;
pub mod postgres_schema;
pub mod process;
pub mod proxy;
pub mod publish_faults;
pub mod rabbit;
pub mod rabbit_wire;
pub mod rabbitmqctl;
pub mod unprivileged;
pub mod wait;

pub use logs::Logs;
pub use own_pgbouncer::OwnPgbouncer;
pub use own_postgres::OwnPostgres;
pub use own_rabbit::OwnBroker;
pub use postgres::TestDatabase;
pub use postgres_schema::TestSchema;
pub use process::Process;
pub use proxy::{Mode, Proxy, Way};
pub use publish_faults::{PublishFaults, Rates};
pub use rabbit::TestVhost;
pub use rabbit_wire::Wire;
pub use rabbitmqctl::Ctl;
pub use wait::{eventually, eventually_value};

//! The broker "database" on PostgreSQL.

mod bind;
mod consume;
mod route;

pub(crate) use self::bind::{bind, queue_depth, queue_known, unbound};
pub(crate) use self::consume::{ack_queue, claim_queue, put_back_queue, renew_queue};
pub use self::route::ROUTE;
pub(crate) use self::route::route_due;

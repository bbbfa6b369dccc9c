//! The broker "database" on SQLite.

mod bind;
mod consume;
mod route;

pub(crate) use self::bind::{bind, queue_depth, queue_known, unbound};
pub(crate) use self::consume::{ack_queue, claim_queue, put_back_queue, renew_queue};
pub(crate) use self::route::route_due;

#[cfg(test)]
pub(crate) mod statements {
    pub(crate) use super::bind::{DEPTH, KNOWN};
    pub(crate) use super::consume::{ACK, CLAIM, DUE, PUT_BACK, RENEW};
    pub(crate) use super::route::{BINDINGS, DELETE, HOLD, PUBLISHED, PUT, READ};
}

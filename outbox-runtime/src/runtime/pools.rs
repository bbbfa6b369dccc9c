//! The pools of one runtime.

use sqlx::Pool;

use crate::store::Store;

/// The pools of one runtime.
pub(super) struct Pools<DB: Store> {
    /// Where handlers run.
    pub(super) service: Pool<DB>,
    /// Whether that pool is ours, to be closed at the end.
    pub(super) own: bool,
    /// Where relay and claims run.
    pub(super) relay: Pool<DB>,
    /// What is tried, for messages: no password.
    pub(super) shown: String,
    /// Whether handlers wait for each other if there are fewer connections than places for them.
    pub(super) warns_of_size: bool,
}

//! The pools of one runtime.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    /// Whether a session of the relay's pool is nobody else's, so that settings of it may be changed; known once the database was looked at.
    pub(super) own_sessions: Arc<AtomicBool>,
    /// How many handlers may run at the same time so that a connection is left for what they and the engine need beside; `None` if no number
    /// of them takes the last one.
    pub(super) room: Option<u32>,
}

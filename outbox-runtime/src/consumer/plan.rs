//! A consumer with all its settings resolved.

use std::collections::HashMap;
use std::time::Duration;

use crate::handler::HandlerDescriptor;

/// What happens after a failed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetryPolicy {
    pub(crate) immediate: u32,
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
    pub(crate) max_attempts: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { immediate: 2, first: Duration::from_secs(1), longest: Duration::from_secs(600), max_attempts: 10 }
    }
}

/// One handler of a consumer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandlerPlan {
    pub(crate) descriptor: &'static HandlerDescriptor,
    pub(crate) timeout: Duration,
    pub(crate) retry: RetryPolicy,
}

/// One consumer.
#[derive(Debug, Clone)]
pub(crate) struct ConsumerPlan {
    pub(crate) name: String,
    /// Without namespace.
    pub(crate) queue: String,
    pub(crate) concurrency: u16,
    pub(crate) prefetch: u16,
    /// By event name.
    pub(crate) handlers: HashMap<&'static str, HandlerPlan>,
}

/// How long one run of a handler may take unless somebody says otherwise.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many deliveries of one consumer are handled at the same time unless somebody says otherwise.
pub(crate) const DEFAULT_CONCURRENCY: u16 = 8;

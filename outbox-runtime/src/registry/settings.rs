//! Settings of a consumer that came at run time.

use std::time::Duration;

use crate::handler::{ConsumerSettings, RetrySettings};

/// [`ConsumerSettings`] that came at run time.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnedSettings {
    pub(crate) queue: Option<String>,
    pub(crate) concurrency: Option<u16>,
    pub(crate) prefetch: Option<u16>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: RetrySettings,
}

impl From<ConsumerSettings> for OwnedSettings {
    fn from(settings: ConsumerSettings) -> Self {
        Self {
            queue: settings.queue.map(str::to_owned),
            concurrency: settings.concurrency,
            prefetch: settings.prefetch,
            timeout: settings.timeout,
            retry: settings.retry,
        }
    }
}

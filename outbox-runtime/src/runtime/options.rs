//! Choices of a runtime.

use std::time::Duration;

use crate::handler::RetrySettings;
use crate::registry::settings::OwnedSettings;

/// A value that is never shown: it has a password.
#[derive(Clone)]
pub(crate) struct Hidden(pub(crate) String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

/// What a runtime does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Role {
    /// Relays events and runs consumers.
    #[default]
    All,
    /// Relays events only.
    Relay,
    /// Runs consumers only; what their handlers write is relayed by another runtime on this database.
    Consume,
    /// Neither: brings the tables up to date, so that `enqueue` works; another process relays.
    PublishOnly,
}

impl Role {
    pub(crate) const fn relays(self) -> bool {
        matches!(self, Self::All | Self::Relay)
    }

    pub(crate) const fn consumes(self) -> bool {
        matches!(self, Self::All | Self::Consume)
    }
}

/// What a runtime does about its tables at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Migrations {
    /// Brings them up to date, safely beside other instances.
    #[default]
    Run,
    /// Refuses to work unless they are up to date.
    Check,
    /// Neither.
    Off,
}

/// Settings of one consumer, by name, from the service's configuration.
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// use std::time::Duration;
/// use outbox::ConsumerOptions;
///
/// let options = ConsumerOptions::new().concurrency(16).prefetch(32).timeout(Duration::from_secs(10));
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "it does nothing until it is given to `RuntimeBuilder::consumer`"]
pub struct ConsumerOptions {
    pub(crate) settings: OwnedSettings,
}

impl ConsumerOptions {
    /// Nothing said.
    pub fn new() -> Self {
        Self::default()
    }

    /// The queue's name, without the namespace.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.settings.queue = Some(queue.into());
        self
    }

    /// How many deliveries are handled at the same time.
    pub fn concurrency(mut self, deliveries: u16) -> Self {
        self.settings.concurrency = Some(deliveries);
        self
    }

    /// How many deliveries the broker may send ahead.
    pub fn prefetch(mut self, deliveries: u16) -> Self {
        self.settings.prefetch = Some(deliveries);
        self
    }

    /// How long one run of a handler may take, where the handler does not say it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Retries, where the handler does not say them: runs at once, the first and the longest delay of later ones, and all runs together.
    pub fn retry(mut self, immediate: u32, delays: (Duration, Duration), max_attempts: u32) -> Self {
        self.settings.retry =
            RetrySettings { immediate: Some(immediate), delays: Some(delays), max_attempts: Some(max_attempts) };
        self
    }
}

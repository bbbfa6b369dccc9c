//! The five actions, and which rows each is for.

use crate::admin::EventStatus;

/// What is done to a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Due now, with all attempts before it.
    RetryNow,
    /// Failed, with this as its last error.
    Fail {
        /// What the row keeps.
        error: String,
    },
    /// Deleted.
    Discard,
    /// Nothing waits for it any more.
    Skip,
    /// Published, and Pending again.
    Replay,
}

impl Action {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::RetryNow => "retry_now",
            Self::Fail { .. } => "fail",
            Self::Discard => "discard",
            Self::Skip => "skip",
            Self::Replay => "replay",
        }
    }

    /// The statuses of its rows. Processing stands for a row whose lease has run out, which is nobody's; any other is busy.
    pub(crate) const fn statuses(&self) -> &'static [EventStatus] {
        match self {
            Self::RetryNow | Self::Discard | Self::Skip => {
                &[EventStatus::Failed, EventStatus::Processing, EventStatus::Pending]
            }
            Self::Fail { .. } => &[EventStatus::Processing, EventStatus::Pending],
            Self::Replay => &[EventStatus::Published],
        }
    }

    pub(crate) fn is_for(&self, status: EventStatus) -> bool {
        self.statuses().contains(&status)
    }

    /// Only events that others can wait for.
    pub(crate) const fn needs_order(&self) -> bool {
        matches!(self, Self::Skip)
    }

    /// Whether later events of the key may go on after it.
    pub(crate) const fn lets_pass(&self) -> bool {
        matches!(self, Self::Fail { .. } | Self::Discard | Self::Skip)
    }
}

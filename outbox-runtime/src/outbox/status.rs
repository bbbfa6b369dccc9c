//! Where an event is on its way.

use std::fmt;

/// The status of an event in the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum EventStatus {
    /// It waits for its time, for a relay, or for the events before it.
    Pending,
    /// A relay has it.
    Processing,
    /// The broker has it.
    Published,
    /// Its budget is spent: somebody must decide about it.
    Failed,
}

impl EventStatus {
    /// All of them, in the order in which [`Admin::list`](crate::admin::Admin::list) goes through them.
    pub const ALL: [Self; 4] = [Self::Failed, Self::Processing, Self::Pending, Self::Published];

    /// The name in the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Processing => "Processing",
            Self::Published => "Published",
            Self::Failed => "Failed",
        }
    }

    /// The status of that name; case does not matter.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for EventStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

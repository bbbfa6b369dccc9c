//! Where an event is on its way.

use std::fmt;

/// The status of an event in the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// The name in the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Processing => "Processing",
            Self::Published => "Published",
            Self::Failed => "Failed",
        }
    }

    /// The opposite of [`as_str`](Self::as_str).
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "Pending" => Self::Pending,
            "Processing" => Self::Processing,
            "Published" => Self::Published,
            "Failed" => Self::Failed,
            _ => return None,
        })
    }
}

impl fmt::Display for EventStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

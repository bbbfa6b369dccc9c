//! The four states of a row.

use std::fmt;

/// The state of an event in the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Status {
    /// It waits: it is due, delayed, held after an error, or stands behind another event of its key.
    Pending,
    /// A relay has it.
    Processing,
    /// The broker has it.
    Published,
    /// Its budget is spent: it waits for a person.
    Failed,
}

impl Status {
    /// All of them, in the order in which [`Admin::list`](crate::admin::Admin::list) goes through them.
    pub const ALL: [Self; 4] = [Self::Failed, Self::Processing, Self::Pending, Self::Published];

    /// As the tables write it.
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

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

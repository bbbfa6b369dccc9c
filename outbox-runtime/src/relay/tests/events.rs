//! Events with every policy that the relay knows.

use std::borrow::Cow;
use std::time::Duration;

use crate::event::{Event, EventDescriptor, OnFailed, Unroutable};
use crate::{Draft, Enqueue};

const BASE: EventDescriptor = EventDescriptor::new("plain.changed", "Plain", "tests", "events.rs", 1).exchange("x");
const ORDERED: EventDescriptor =
    EventDescriptor::new("line.changed", "Ordered", "tests", "events.rs", 1).exchange("x").ordered();

macro_rules! event {
    ($name:ident, $descriptor:expr) => {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct $name {
            key: String,
        }

        impl Event for $name {
            const DESCRIPTOR: &'static EventDescriptor = &$descriptor;

            fn key(&self) -> Option<Cow<'_, str>> {
                Some(Cow::Borrowed(&self.key))
            }
        }
    };
}

event!(Plain, BASE);
event!(Fleeting, BASE.unroutable(Unroutable::Discard));
event!(Strict, BASE.unroutable(Unroutable::Fail).max_attempts(2));
event!(Ordered, ORDERED);
event!(Skipping, ORDERED.on_failed(OnFailed::Skip).max_attempts(1).unroutable(Unroutable::Fail));
event!(Impatient, ORDERED.on_failed(OnFailed::Skip).max_age(Duration::from_nanos(1)));
event!(Blocking, ORDERED.max_attempts(1));

/// Which event, by its policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Held while no queue wants it.
    Plain,
    /// Not due before time passes.
    Delayed,
    /// No subscriber is fine.
    Fleeting,
    /// Failed after two attempts.
    Strict,
    /// Keeps its place in its key's line, and is held for ever.
    Ordered,
    /// Ordered; Failed at once, and skipped then.
    Skipping,
    /// Ordered; held, but no longer waited for after its first failure.
    Impatient,
    /// Ordered; Failed at once, and waited for then.
    Blocking,
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::Plain,
        Self::Delayed,
        Self::Fleeting,
        Self::Strict,
        Self::Ordered,
        Self::Skipping,
        Self::Impatient,
        Self::Blocking,
    ];

    pub(super) fn is_ordered(self) -> bool {
        matches!(self, Self::Ordered | Self::Skipping | Self::Impatient | Self::Blocking)
    }

    pub(super) fn skips(self) -> bool {
        matches!(self, Self::Skipping | Self::Impatient)
    }

    pub(super) fn draft(self, event_id: &str, key: &str) -> Draft {
        let (options, key) = (Enqueue::new().event_id(event_id), key.to_owned());
        match self {
            Self::Plain => Draft::new(&Plain { key }, options),
            Self::Delayed => Draft::new(&Plain { key }, options.after(Duration::from_secs(3600))),
            Self::Fleeting => Draft::new(&Fleeting { key }, options),
            Self::Strict => Draft::new(&Strict { key }, options),
            Self::Ordered => Draft::new(&Ordered { key }, options),
            Self::Skipping => Draft::new(&Skipping { key }, options),
            Self::Impatient => Draft::new(&Impatient { key }, options),
            Self::Blocking => Draft::new(&Blocking { key }, options),
        }
    }
}

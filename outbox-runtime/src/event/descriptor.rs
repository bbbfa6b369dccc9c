//! What the compiler knows of an event, as data for the registry.

use std::time::Duration;

/// An event type, as `#[event]` describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventDescriptor {
    /// The name on the wire, also the routing key: `order.created`.
    pub name: &'static str,
    /// The version of the event's own fields, from 1.
    pub version: u32,
    /// The exchange it is published to, without the runtime's namespace.
    pub exchange: &'static str,
    /// The kind of thing it happened to; the name up to its last dot unless given.
    pub aggregate: &'static str,
    /// The form of the body.
    pub envelope: Envelope,
    /// What happens while no queue wants it.
    pub unroutable: Unroutable,
    /// Whether the events of one key reach the consumers in the order of their commits.
    pub ordered: bool,
    /// How often it may be refused (or returned, with [`Unroutable::Fail`]) before it is Failed.
    pub max_attempts: u32,
    /// How long after the enqueue it may fail before its budget is spent, however many attempts are left. With [`Unroutable::Hold`] an event that
    /// no queue wants never becomes Failed; with [`OnFailed::Skip`] the later events of its key go on without it after that time.
    pub max_age: Option<Duration>,
    /// What it means for the later events of its key that it cannot be sent.
    pub on_failed: OnFailed,
    /// The pause after a failed attempt: the first one, doubled for each further one up to the longest.
    pub backoff: (Duration, Duration),
    /// Whether fields of the envelope must be taken off a flat body before the struct can be decoded
    /// (`#[serde(flatten)]`, `#[serde(deny_unknown_fields)]`).
    pub strip: bool,
    /// The Rust type's name.
    pub rust_type: &'static str,
    /// `module_path!()` of the type.
    pub module: &'static str,
    /// `file!()` of the type.
    pub file: &'static str,
    /// `line!()` of the type.
    pub line: u32,
}

impl EventDescriptor {
    /// For generated code: the fields that have no default.
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        rust_type: &'static str,
        module: &'static str,
        file: &'static str,
        line: u32,
    ) -> Self {
        Self {
            name,
            version: 1,
            exchange: crate::DEFAULT_EXCHANGE,
            aggregate: aggregate_of(name),
            envelope: Envelope::Flat,
            unroutable: Unroutable::Hold,
            ordered: false,
            max_attempts: 20,
            max_age: None,
            on_failed: OnFailed::Block,
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            strip: false,
            rust_type,
            module,
            file,
            line,
        }
    }
    #[doc(hidden)]
    pub const fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }
    #[doc(hidden)]
    pub const fn exchange(mut self, exchange: &'static str) -> Self {
        self.exchange = exchange;
        self
    }
    #[doc(hidden)]
    pub const fn aggregate(mut self, aggregate: &'static str) -> Self {
        self.aggregate = aggregate;
        self
    }
    #[doc(hidden)]
    pub const fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }
    #[doc(hidden)]
    pub const fn unroutable(mut self, unroutable: Unroutable) -> Self {
        self.unroutable = unroutable;
        self
    }
    #[doc(hidden)]
    pub const fn ordered(mut self) -> Self {
        self.ordered = true;
        self
    }
    #[doc(hidden)]
    pub const fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts;
        self
    }
    #[doc(hidden)]
    pub const fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = Some(max_age);
        self
    }
    #[doc(hidden)]
    pub const fn on_failed(mut self, on_failed: OnFailed) -> Self {
        self.on_failed = on_failed;
        self
    }
    #[doc(hidden)]
    pub const fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = (first, longest);
        self
    }
    #[doc(hidden)]
    pub const fn strip(mut self, strip: bool) -> Self {
        self.strip = strip;
        self
    }
}

/// `order.line.added` -> `order.line`; a name without a dot is its own aggregate.
const fn aggregate_of(name: &'static str) -> &'static str {
    let bytes = name.as_bytes();
    let mut end = bytes.len();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b'.' {
            end = i;
        }
        i += 1;
    }
    name.split_at(end).0
}

/// The form of an event's body. See [`envelope`](crate::event::envelope).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Envelope {
    /// `eventId`, `eventType`, `occurredAt` and `eventVersion` beside the struct's own fields.
    Flat,
    /// `{"v":1,"data":{..}}`.
    Versioned,
    /// The struct's own JSON and nothing else; everything about the event is in AMQP properties and headers.
    Bare,
    /// CloudEvents 1.0, structured: `{"specversion":"1.0","id":..,"data":{..}}`.
    CloudEvents,
}

impl Envelope {
    /// The name in the attribute, in the table and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Versioned => "versioned",
            Self::Bare => "bare",
            Self::CloudEvents => "cloudevents",
        }
    }

    /// The opposite of [`as_str`](Self::as_str).
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "flat" => Self::Flat,
            "versioned" => Self::Versioned,
            "bare" => Self::Bare,
            "cloudevents" => Self::CloudEvents,
            _ => return None,
        })
    }

    /// The `content_type` of a message with this body.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::CloudEvents => "application/cloudevents+json",
            _ => "application/json",
        }
    }
}

/// What the relay does with an event that the broker returned because no queue is bound for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Unroutable {
    /// Keep trying with backoff, never fail: the consumer may not have been started yet.
    #[default]
    Hold,
    /// Spend the event's attempts, then mark it Failed, log it and count it.
    Fail,
    /// No subscriber is fine: count it and mark it Published.
    Discard,
}

impl Unroutable {
    /// The name in the attribute and in the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Fail => "fail",
            Self::Discard => "discard",
        }
    }

    /// The opposite of [`as_str`](Self::as_str).
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "hold" => Self::Hold,
            "fail" => Self::Fail,
            "discard" => Self::Discard,
            _ => return None,
        })
    }
}

/// What an event that cannot be sent means for the later events of its key. Only for ordered events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnFailed {
    /// They wait until somebody has decided about it.
    #[default]
    Block,
    /// They go on without it: once it is Failed, and once it was held for longer than its `max_age`.
    Skip,
}

impl OnFailed {
    /// The name in the attribute and in the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Skip => "skip",
        }
    }

    /// The opposite of [`as_str`](Self::as_str).
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "block" => Self::Block,
            "skip" => Self::Skip,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aggregate_is_the_name_up_to_its_last_dot() {
        for (name, want) in [("order.created", "order"), ("order.line.added", "order.line"), ("ping", "ping")] {
            assert_eq!(aggregate_of(name), want);
        }
    }
}

//! Every metric: its name, unit and meaning.

/// Counter, events. Written to the outbox in some transaction (which may still roll back). Label `event`.
pub const ENQUEUED: &str = "outbox_enqueued_total";

//! What the programs that measure share: an event written by hand, as a process without the library's in-process hints writes it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "for programs for people")]

/// One event of `order.created`, its id in `$1`, as `enqueue` writes it; what an insert returns follows.
const INSERT: &str = r#"INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes)
SELECT id, 'order', id, 'order.created', 'orders.events', 'order.created',
       json_build_object('eventId', id, 'eventType', 'order.created', 'occurredAt', '2026-01-01T00:00:00Z', 'order_id', id), 120
FROM (SELECT $1::text AS id) AS new ON CONFLICT (event_id) DO NOTHING RETURNING "#;

/// How a commit tells a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// Not at all.
    Never,
    /// If it sleeps: the clause of enqueue's own statement.
    IfAsleep,
    /// Each time, on a channel that nobody listens to: what is measured is the commit, and not a listener at work.
    Always,
}

impl Tells {
    /// The statement that writes one event.
    pub fn insert(self) -> String {
        let returning = match self {
            Self::Never => "0::bigint",
            Self::IfAsleep => {
                "(SELECT count(pg_notify(channel, '')) FROM outbox_wakeup WHERE asleep_until > clock_timestamp())"
            }
            Self::Always => "(SELECT count(pg_notify(channel || '_bench', '')) FROM outbox_wakeup)",
        };
        format!("{INSERT}{returning}")
    }
}

/// The one in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().expect("at least one value")
}

//! Messages as the bodies see them: those that are parked, and those that somebody else sends.

use crate::world::OrderCreated;

/// A row of `parked_messages`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    pub event_id: String,
    pub status: String,
    pub reason: String,
    pub error: String,
    pub attempts: String,
    pub isolated: bool,
    pub body_hex: String,
}

/// A message that the relay of this database did not send.
pub struct Foreign<'a> {
    pub event_id: &'a str,
    pub event_type: &'a str,
    pub version: i32,
    pub body: String,
    /// Without it, now: a foreign producer does not say it, and the dedup window has nothing against it.
    pub enqueued_at: Option<&'a str>,
}

impl<'a> Foreign<'a> {
    /// An order as another producer, or the broker a second time, would bring it.
    pub fn order(n: usize, event_id: &'a str) -> Self {
        let order_id = OrderCreated::number(n).order_id;
        let body = format!(
            r#"{{"eventId":"{event_id}","eventType":"order.created","occurredAt":"2026-01-01T00:00:00Z","eventVersion":1,"order_id":"{order_id}","quantity":1}}"#
        );
        Self { event_id, event_type: "order.created", version: 1, body, enqueued_at: None }
    }
}

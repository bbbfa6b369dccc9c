//! A row of a queue as the message that RabbitMQ would have delivered.

use chrono::SecondsFormat;
use serde_json::{Map, Value};

use crate::event::Envelope;
use crate::outbox::own_header;
use crate::queue::QueueRow;
use crate::raw::{Properties, RawMessage, wire};

/// Makes the message.
pub(crate) fn message(row: QueueRow) -> RawMessage {
    let correlation_id = row.headers.get(own_header::CORRELATION).and_then(Value::as_str).map(str::to_owned);
    let mut headers: Map<String, Value> = row.headers.into_iter().collect();
    headers.remove(own_header::CORRELATION);
    let mut own = vec![
        (wire::EVENT_ID, Value::from(row.event_id.as_str())),
        (wire::VERSION, Value::from(row.event_version)),
        (wire::ENVELOPE, Value::from(row.envelope.as_str())),
        (wire::KEY, Value::from(row.aggregate_id)),
    ];
    if let Some(enqueued_at) = row.enqueued_at {
        own.push((wire::ENQUEUED_AT, Value::from(enqueued_at.to_rfc3339_opts(SecondsFormat::Micros, true))));
    }
    headers.extend(own.into_iter().map(|(key, value)| (key.to_owned(), value)));
    RawMessage {
        body: row.payload,
        properties: Properties {
            message_id: Some(row.event_id),
            kind: Some(row.event_type),
            content_type: Some(Envelope::from_name(&row.envelope).unwrap_or(Envelope::Bare).content_type().to_owned()),
            correlation_id,
            timestamp: row.occurred_at.and_then(|time| u64::try_from(time.timestamp()).ok()),
            exchange: row.exchange,
            routing_key: row.routing_key,
            redelivered: row.deliveries > 1,
            headers,
        },
    }
}

//! An outbox row to a message, and a delivery to a raw message (design section 8).

use chrono::SecondsFormat;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::table::{text, to_amqp, to_json};
use crate::event::Envelope;
use crate::event::draft::MAX_BODY_BYTES;
use crate::event::{HEADERS_BYTES, amqp_bytes};
use crate::outbox::{ClaimedRow, own_header};
use crate::raw::{Properties, RawMessage, wire};

/// Something in a row that AMQP cannot carry; the row is refused with this text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unsendable(pub(crate) String);

fn short(what: &str, value: &str) -> Result<ShortString, Unsendable> {
    ShortString::try_new(value)
        .map_err(|_| Unsendable(format!("its {what} has {} bytes, AMQP allows 255", value.len())))
}

/// Where and how a row goes.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) properties: BasicProperties,
}

/// Checks everything that lapin would panic on.
pub(crate) fn outgoing(row: &ClaimedRow, exchange: &str) -> Result<Outgoing, Unsendable> {
    if let Some(defect) = &row.defect {
        return Err(Unsendable(defect.clone()));
    }
    // Checked at enqueue; a consumer of ours would not take it.
    if row.payload.len() > MAX_BODY_BYTES {
        return Err(Unsendable(format!("its body has {} bytes, the limit is {MAX_BODY_BYTES}", row.payload.len())));
    }
    // Checked at enqueue, without ours: this is for a row that somebody wrote by hand, whose frame would close the connection.
    let bytes = amqp_bytes(&row.headers);
    if bytes > HEADERS_BYTES + 8 * 1024 {
        return Err(Unsendable(format!("its headers would have {bytes} bytes, the limit is {HEADERS_BYTES}")));
    }
    let mut headers = FieldTable::default();
    for (key, value) in &row.headers {
        if key == own_header::CORRELATION {
            continue;
        }
        let value = to_amqp(value).ok_or_else(|| Unsendable("it has a header without an AMQP type".to_owned()))?;
        headers.insert(short("header key", key)?, value);
    }
    let mut own = |key: &str, value: AMQPValue| {
        headers.insert(ShortString::from(key), value);
    };
    own(wire::EVENT_ID, text(&row.event_id));
    own(wire::VERSION, AMQPValue::LongLongInt(i64::from(row.event_version)));
    own(wire::ENVELOPE, text(&row.envelope));
    own(wire::KEY, text(&row.aggregate_id));
    own(wire::ENQUEUED_AT, text(&row.enqueued_at.to_rfc3339_opts(SecondsFormat::Micros, true)));
    let content_type = Envelope::from_name(&row.envelope).unwrap_or(Envelope::Bare).content_type();
    let mut properties = BasicProperties::default()
        .with_message_id(short("event id", &row.event_id)?)
        .with_type(short("event type", &row.event_type)?)
        .with_content_type(ShortString::from(content_type))
        .with_delivery_mode(2)
        .with_headers(headers);
    if let Ok(seconds) = u64::try_from(row.occurred_at.timestamp()) {
        properties = properties.with_timestamp(seconds);
    }
    if let Some(id) = row.headers.get(own_header::CORRELATION).and_then(|value| value.as_str()) {
        properties = properties.with_correlation_id(short("correlation id", id)?);
    }
    Ok(Outgoing {
        exchange: short("exchange", exchange)?,
        routing_key: short("routing key", &row.routing_key)?,
        properties,
    })
}

/// A delivery without its tag.
pub(crate) fn incoming(
    exchange: &ShortString,
    routing_key: &ShortString,
    redelivered: bool,
    properties: &BasicProperties,
    body: Vec<u8>,
) -> RawMessage {
    let owned = |value: &Option<ShortString>| value.as_ref().map(ToString::to_string);
    RawMessage {
        body,
        properties: Properties {
            message_id: owned(properties.message_id()),
            kind: owned(properties.kind()),
            content_type: owned(properties.content_type()),
            correlation_id: owned(properties.correlation_id()),
            timestamp: *properties.timestamp(),
            exchange: exchange.to_string(),
            routing_key: routing_key.to_string(),
            redelivered,
            headers: properties.headers().as_ref().map(to_json).unwrap_or_default(),
        },
    }
}

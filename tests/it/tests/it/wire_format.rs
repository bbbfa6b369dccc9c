//! The bytes on the wire (design section 8).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lapin::types::AMQPValue;
use outbox::Enqueue;
use serde_json::value::RawValue;

use crate::world::World;

/// The event of the reference message. `amount` is kept as it was written: 199.00 has two decimals.
#[outbox::event(name = "order.created", exchange = "orders.events", key = order_id)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceOrder {
    order_id: String,
    customer_id: String,
    amount: Box<RawValue>,
    currency: String,
}

const REFERENCE: &str = r#"{"eventId":"01J7X8A6YQ4Q9M6Q4QG7H2J8F1","eventType":"order.created","occurredAt":"2026-07-15T10:00:00Z","orderId":"ORD-20260715-001","customerId":"C10086","amount":199.00,"currency":"CNY"}"#;

fn reference() -> (ReferenceOrder, Enqueue) {
    let order = ReferenceOrder {
        order_id: "ORD-20260715-001".into(),
        customer_id: "C10086".into(),
        amount: RawValue::from_string("199.00".into()).unwrap(),
        currency: "CNY".into(),
    };
    let at: SystemTime = UNIX_EPOCH + Duration::from_secs(1_784_109_600);
    let options = Enqueue::new()
        .event_id("01J7X8A6YQ4Q9M6Q4QG7H2J8F1")
        .occurred_at(at)
        .header("tenant", "acme")
        .header("priority", 7)
        .correlation_id("checkout-17");
    (order, options)
}

/// S2, the golden test: the reference message, byte for byte, through table, relay and broker.
#[tokio::test(flavor = "multi_thread")]
async fn the_reference_message_arrives_byte_for_byte() {
    let world = World::new().await;
    let wire = world.wire().await;
    wire.topic_exchange("orders.events").await;
    wire.quorum_queue("copy").await;
    wire.bind("copy", "orders.events", "order.created").await;
    let runtime = world.runtime([]).role(outbox::Role::Relay).start().await.unwrap();

    let (order, options) = reference();
    let mut tx = world.db.pool().begin().await.unwrap();
    let id = order.enqueue_with(&mut tx, options).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(id, "01J7X8A6YQ4Q9M6Q4QG7H2J8F1");
    let stored: String =
        sqlx::query_scalar("SELECT payload::text FROM outbox_messages").fetch_one(world.db.pool()).await.unwrap();
    assert_eq!(stored, REFERENCE);

    let message = outbox_it::eventually_value(
        Duration::from_secs(10),
        "the message",
        async || wire.get("copy").await,
        Option::is_some,
    )
    .await
    .unwrap();
    assert_eq!(String::from_utf8_lossy(&message.delivery.data), REFERENCE);
    let properties = &message.delivery.properties;
    let text = |value: &Option<lapin::types::ShortString>| value.as_ref().map(ToString::to_string);
    assert_eq!(text(properties.message_id()).as_deref(), Some("01J7X8A6YQ4Q9M6Q4QG7H2J8F1"));
    assert_eq!(text(properties.kind()).as_deref(), Some("order.created"));
    assert_eq!(text(properties.content_type()).as_deref(), Some("application/json"));
    assert_eq!(text(properties.correlation_id()).as_deref(), Some("checkout-17"));
    assert_eq!(*properties.timestamp(), Some(1_784_109_600));
    assert_eq!(*properties.delivery_mode(), Some(2), "persistent");
    let headers = properties.headers().as_ref().unwrap().inner();
    let header = |key: &str| match headers.get(key) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        Some(AMQPValue::LongLongInt(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(header("outbox-event-id"), "01J7X8A6YQ4Q9M6Q4QG7H2J8F1");
    assert_eq!(header("outbox-key"), "ORD-20260715-001");
    assert_eq!(header("outbox-envelope"), "flat");
    assert_eq!(header("outbox-event-version"), "1");
    assert_eq!(header("tenant"), "acme");
    assert_eq!(header("priority"), "7");
    assert!(headers.contains_key("outbox-enqueued-at"), "{headers:?}");
    assert!(!headers.contains_key("outbox-correlation-id"), "it is a property: {headers:?}");
    runtime.shutdown().await;
}

macro_rules! envelope_event {
    ($type:ident, $name:literal, $envelope:literal) => {
        #[outbox::event(name = $name, envelope = $envelope, version = 2)]
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $type {
            n: i32,
        }
    };
}
envelope_event!(Flat, "form.flat", "flat");
envelope_event!(Versioned, "form.versioned", "versioned");
envelope_event!(Bare, "form.bare", "bare");
envelope_event!(Cloud, "form.cloud", "cloudevents");

macro_rules! seen {
    ($handler:ident, $type:ident) => {
        #[outbox::handler(consumer = "forms")]
        async fn $handler(event: outbox::Message<$type>, db: &mut sqlx::PgConnection) -> sqlx::Result<()> {
            let told = format!("{} v{} {}", event.metadata.event_type(), event.metadata.version(), event.n);
            crate::world::effect(db, "forms", &told).await
        }
    };
}
seen!(flat, Flat);
seen!(versioned, Versioned);
seen!(bare, Bare);
seen!(cloud, Cloud);

/// Every form is read back by its consumer, also by structs that refuse unknown fields.
#[tokio::test(flavor = "multi_thread")]
async fn every_envelope_goes_there_and_back() {
    let world = World::new().await;
    let handlers = outbox::handlers![flat, versioned, bare, cloud];
    let runtime = world.runtime(handlers).start().await.unwrap();
    let mut tx = world.db.pool().begin().await.unwrap();
    let drafts = [Flat { n: 1 }.draft(), Versioned { n: 2 }.draft(), Bare { n: 3 }.draft(), Cloud { n: 4 }.draft()];
    outbox::enqueue_all(&mut tx, drafts).await.unwrap();
    tx.commit().await.unwrap();
    world.settled(4, Duration::from_secs(15)).await;
    let told: Vec<String> =
        sqlx::query_scalar("SELECT order_id FROM effects ORDER BY 1").fetch_all(world.db.pool()).await.unwrap();
    assert_eq!(told, ["form.bare v2 3", "form.cloud v2 4", "form.flat v2 1", "form.versioned v2 2"]);
    let bodies: Vec<(String, String)> = sqlx::query_as(
        "SELECT event_type, regexp_replace(payload::text, event_id, 'ID') FROM outbox_messages WHERE event_type <> 'form.cloud' ORDER BY 1",
    )
    .fetch_all(world.db.pool())
    .await
    .unwrap();
    assert_eq!(bodies[0].1, r#"{"n":3}"#);
    assert!(bodies[1].1.ends_with(r#","eventVersion":2,"n":1}"#), "{}", bodies[1].1);
    assert_eq!(bodies[2].1, r#"{"v":2,"data":{"n":2}}"#);
    runtime.shutdown().await;
}

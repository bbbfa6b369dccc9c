//! What the tests of the producing half share: events of every policy, queues of the test's own to look into, rows written by hand.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::BasicConsumeOptions;
use lapin::types::FieldTable;
use outbox::{Draft, Role, RuntimeBuilder};
use outbox_it::{TestDatabase, Wire, eventually_value};

use crate::world::World;

/// On the exchange of `order.created`, and nobody binds it.
#[outbox::event(name = "order.unwanted", exchange = "orders.events", key = order_id)]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Unwanted {
    pub order_id: String,
}

/// On an exchange of its own.
#[outbox::event(name = "audit.noted", exchange = "audit.events", key = order_id)]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct AuditNoted {
    pub order_id: String,
}

/// No subscriber is fine.
#[outbox::event(name = "order.optional", exchange = "orders.events", key = order_id, unroutable = "discard")]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Optional {
    pub order_id: String,
}

/// No subscriber is a failure.
#[outbox::event(name = "order.urgent", exchange = "orders.events", key = order_id, unroutable = "fail")]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Urgent {
    pub order_id: String,
}

/// Its body is exactly its JSON.
#[outbox::event(name = "blob.raw", exchange = "orders.events", envelope = "bare")]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Raw(pub serde_json::Value);

/// A runtime that only relays.
pub fn relay(world: &World) -> RuntimeBuilder {
    world.runtime([]).role(Role::Relay)
}

/// Commits drafts, 500 in a transaction.
pub async fn commit(db: &TestDatabase, drafts: impl IntoIterator<Item = Draft>) -> Vec<String> {
    let mut ids = Vec::new();
    let mut drafts = drafts.into_iter().peekable();
    while drafts.peek().is_some() {
        let mut tx = db.pool().begin().await.expect("begin");
        let written = outbox::enqueue_all(&mut tx, drafts.by_ref().take(500)).await.expect("enqueue");
        tx.commit().await.expect("commit");
        ids.extend(written.iter().map(|id| id.as_str().to_owned()));
    }
    ids
}

/// Declares exchange and queue and binds them.
pub async fn tap(wire: &Wire, queue: &str, exchange: &str, key: &str) {
    wire.topic_exchange(exchange).await;
    wire.quorum_queue(queue).await;
    wire.bind(queue, exchange, key).await;
}

/// Takes what a queue holds: waits for `want` messages, then a little for one too many.
pub async fn take(wire: &Wire, queue: &str, want: usize) -> Vec<Delivery> {
    let channel = wire.channel().await;
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let stream = channel.basic_consume(queue.into(), "tap".into(), options, FieldTable::default()).await;
    let mut stream = stream.expect("a queue to consume from");
    let mut taken = Vec::new();
    loop {
        let patience = Duration::from_millis(if taken.len() < want { 10_000 } else { 500 });
        match tokio::time::timeout(patience, stream.next()).await {
            Ok(Some(Ok(delivery))) => taken.push(delivery),
            _ => return taken,
        }
    }
}

/// The event id of a message.
pub fn id(delivery: &Delivery) -> String {
    delivery.properties.message_id().as_ref().expect("a message id").to_string()
}

/// How often each id is there.
pub fn tally(deliveries: &[Delivery]) -> HashMap<String, usize> {
    let mut tally = HashMap::new();
    for delivery in deliveries {
        *tally.entry(id(delivery)).or_default() += 1;
    }
    tally
}

/// Waits until so many rows fulfil a condition.
pub async fn rows(db: &TestDatabase, condition: &str, want: usize, within: Duration) {
    let want = i64::try_from(want).unwrap();
    let what = format!("{want} rows with {condition}");
    eventually_value(within, &what, async || db.count("outbox_messages", condition).await, |n| *n == want).await;
}

/// The errors of rows that fulfil a condition.
pub async fn errors(db: &TestDatabase, condition: &str) -> Vec<String> {
    let sql = format!("SELECT DISTINCT coalesce(last_error, '') FROM outbox_messages WHERE {condition} ORDER BY 1");
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(db.pool()).await.unwrap()
}

/// A row of `order.created` as a producer in plain SQL writes it, with columns changed by `set` (as in `UPDATE .. SET`).
pub async fn forge(db: &TestDatabase, id: &str, set: &str) {
    let id = id.replace('\'', "''");
    db.execute(&format!(
        r#"BEGIN;
        INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes)
        VALUES ('{id}', 'order', '{id}', 'order.created', 'orders.events', 'order.created',
                '{{"eventId":"{id}","eventType":"order.created","occurredAt":"2026-01-01T00:00:00Z","order_id":"{id}","quantity":1}}', 100);
        UPDATE outbox_messages SET {set} WHERE event_id = '{id}';
        COMMIT"#
    ))
    .await;
}

//! A caller's headers arrive as they were given, or are refused before anything is written.

use std::time::Duration;

use lapin::types::AMQPValue;
use outbox::{Enqueue, EnqueueError};
use serde_json::{Value, json};

use crate::producing::{relay, rows, take, tap};
use crate::world::{OrderCreated, World};

const SOON: Duration = Duration::from_secs(20);

fn json_of(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Void => Value::Null,
        AMQPValue::Boolean(b) => json!(b),
        AMQPValue::LongLongInt(n) => json!(n),
        AMQPValue::Double(n) => json!(n),
        AMQPValue::LongString(s) => json!(std::str::from_utf8(s.as_bytes()).unwrap()),
        AMQPValue::FieldArray(items) => items.as_slice().iter().map(json_of).collect(),
        AMQPValue::FieldTable(table) => table.inner().iter().map(|(k, v)| (k.to_string(), json_of(v))).collect(),
        other => panic!("a type that clients read differently: {other:?}"),
    }
}

/// F11: amqp-rs/lapin#360, #207: a value of a wrong type in a table closes the connection, or there is never an answer.
#[tokio::test(flavor = "multi_thread")]
async fn headers_of_every_kind_arrive_equal_or_are_refused() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", "#").await;
    let runtime = relay(&world).start().await.unwrap();
    let headers = [
        ("text", json!("plain")),
        ("empty", json!("")),
        ("euro", json!("€ and 😀")),
        ("long", json!("x".repeat(40_000))),
        ("least", json!(i64::MIN)),
        ("most", json!(i64::MAX)),
        ("zero", json!(0)),
        ("float", json!(1.5e300)),
        ("negative-float", json!(-0.25)),
        ("true", json!(true)),
        ("false", json!(false)),
        ("null", json!(null)),
        ("array", json!([1, "a", null, [true, [2.5]], {"k": []}])),
        ("table", json!({"a": {"b": {"c": [1, 2, {"d": null}]}}, "ключ": "значение"})),
        ("no-items", json!([])),
        ("no-fields", json!({})),
        ("key with spaces, and €", json!("legal")),
    ];
    let mut options = Enqueue::new().correlation_id("checkout-17");
    for (key, value) in &headers {
        options = options.header(*key, value.clone());
    }
    let longest_key = "k".repeat(255);
    options = options.header(&longest_key, 1);
    let mut tx = world.db.pool().begin().await.unwrap();
    OrderCreated::number(1).enqueue_with(&mut tx, options).await.unwrap();

    let refused = [
        ("unsigned", json!(u64::MAX), "i64::MAX"),
        ("nested-unsigned", json!([{"a": [u64::MAX]}]), "i64::MAX"),
        ("nul", json!("a\0b"), "NUL"),
        ("nested-empty-key", json!({"": 1}), "empty"),
        ("", json!(1), "empty"),
        ("x-death", json!([]), "reserved"),
        ("outbox-event-id", json!("forged"), "reserved"),
        ("Traceparent", json!("forged"), "reserved"),
        ("deep", (0..10).fold(json!(1), |inner, _| json!([inner])), "deep"),
        ("large", json!("x".repeat(70_000)), "limit"),
        // Short as JSON, and nine bytes for each number in AMQP: more than a frame can hold.
        ("numbers", json!(vec![1; 30_000]), "limit"),
        ("nulls-by-key", (0..9_000).map(|n| (n.to_string(), json!([1]))).collect::<Value>(), "limit"),
    ];
    for (key, value, why) in refused {
        let options = Enqueue::new().header(key, value);
        let error = OrderCreated::number(2).enqueue_with(&mut tx, options).await.unwrap_err();
        assert!(matches!(error, EnqueueError::Invalid { .. }), "{key}: {error:?}");
        assert!(error.to_string().contains(why) && error.to_string().len() < 600, "{key}: {error}");
    }
    tx.commit().await.unwrap();

    rows(&world.db, "status = 'Published' AND attempt_count = 0", 1, SOON).await;
    let taken = take(&wire, "orders", 1).await;
    assert_eq!(taken.len(), 1);
    let properties = &taken[0].properties;
    assert_eq!(properties.correlation_id().as_ref().unwrap().as_str(), "checkout-17");
    let table = properties.headers().as_ref().unwrap().inner();
    for (key, value) in &headers {
        assert_eq!(table.get(*key).map(json_of).as_ref(), Some(value), "{key}");
    }
    assert_eq!(table.get(longest_key.as_str()).map(json_of), Some(json!(1)));
    let health = runtime.health();
    assert!(health.ready && health.component("broker publisher").unwrap().failures <= 1, "{health:?}");
    runtime.shutdown().await;
}

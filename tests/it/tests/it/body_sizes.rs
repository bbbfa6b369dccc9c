//! Bodies of every size arrive byte for byte; one that is too large is refused while its transaction can still do without it.

use std::time::Duration;

use outbox::{EnqueueError, Event as _};
use serde_json::Value;

use crate::producing::{Raw, commit, id, relay, rows, take, tap};
use crate::world::{OrderCreated, World};

const LIMIT: usize = 16 * 1024 * 1024;
/// RabbitMQ's default.
const FRAME_MAX: usize = 131_072;

/// A body of exactly so many bytes: a JSON string with its quotes, with a multi-byte character somewhere.
fn body(bytes: usize) -> Raw {
    match bytes {
        1 => Raw(Value::from(7)),
        2..20 => Raw(Value::from("x".repeat(bytes - 2))),
        _ => Raw(Value::from(format!("{}€{}", "a".repeat((bytes - 5) / 2), "b".repeat(bytes - 5 - (bytes - 5) / 2)))),
    }
}

/// F16: amqp-rs/lapin#428 (frame_too_large), #71; php-amqplib#483; ruby-amqp/bunny#224; pika/pika#582: sizes about a frame's stall or vanish.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_every_size_arrive_byte_for_byte() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "blobs", "orders.events", Raw::DESCRIPTOR.name).await;
    let sizes = [
        1,
        2,
        3,
        255,
        256,
        4_096,
        FRAME_MAX - 9,
        FRAME_MAX - 8,
        FRAME_MAX - 7,
        FRAME_MAX - 1,
        FRAME_MAX,
        FRAME_MAX + 1,
        2 * (FRAME_MAX - 8),
        1 << 20,
        5_000_003,
        LIMIT - 1,
        LIMIT,
    ];
    let runtime = relay(&world).start().await.unwrap();
    let mut want = std::collections::HashMap::new();
    for size in sizes {
        let raw = body(size);
        let bytes = serde_json::to_vec(&raw).unwrap();
        assert_eq!(bytes.len(), size);
        let ids = commit(&world.db, [raw.draft()]).await;
        want.insert(ids[0].clone(), bytes);
    }
    rows(&world.db, "status = 'Published' AND attempt_count = 0", sizes.len(), Duration::from_secs(60)).await;
    let taken = take(&wire, "blobs", sizes.len()).await;
    assert_eq!(taken.len(), sizes.len());
    for delivery in &taken {
        let bytes = &want[&id(delivery)];
        assert!(&delivery.data == bytes, "{} bytes came as {}", bytes.len(), delivery.data.len());
    }
    let sizes_told = "SELECT count(*) FROM outbox_messages WHERE payload_bytes = octet_length(payload::text)";
    assert_eq!(world.db.number(sizes_told).await, i64::try_from(sizes.len()).unwrap());
    runtime.shutdown().await;
}

/// F16: above the limit the caller learns it in its own transaction, which stays usable; no poison row is left behind.
#[tokio::test]
async fn a_body_above_the_limit_is_refused_in_the_callers_transaction() {
    let world = World::new().await;
    let mut tx = world.db.pool().begin().await.unwrap();
    sqlx::query("INSERT INTO effects (consumer, order_id) VALUES ('caller', 'a')").execute(&mut *tx).await.unwrap();
    let error = body(LIMIT + 1).enqueue(&mut tx).await.unwrap_err();
    let EnqueueError::Invalid { problems, .. } = &error else { panic!("{error:?}") };
    assert_eq!(problems.len(), 1);
    let text = error.to_string();
    assert!(text.contains(&(LIMIT + 1).to_string()) && text.contains(&LIMIT.to_string()), "{text}");
    assert!(text.len() < 500 && format!("{error:?}").len() < 1_000, "the error does not carry the body");
    // In a list, the good ones are not written either.
    let drafts = [OrderCreated::number(1).draft(), body(LIMIT + 1).draft()];
    assert!(matches!(outbox::enqueue_all(&mut tx, drafts).await, Err(EnqueueError::Invalid { .. })));
    OrderCreated::number(2).enqueue(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.db.count("outbox_messages", "true").await, 1);
    assert_eq!(world.db.count("effects", "true").await, 1);
}

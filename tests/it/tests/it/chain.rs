//! The whole chain: enqueue, relay, broker, consumer, effect.

use std::time::Duration;

use outbox::handlers;

use crate::world::{World, no_doubles};

/// Promises 1 to 3: every committed event has one effect, a rolled-back one none.
#[tokio::test(flavor = "multi_thread")]
async fn every_committed_event_has_one_effect_and_a_rolled_back_one_none() {
    let world = World::new().await;
    let runtime = world.runtime(handlers![crate::world::reserve_stock]).start().await.expect("start");
    world.enqueue(0, 300).await;
    let mut tx = world.db.pool().begin().await.unwrap();
    crate::world::OrderCreated::number(999).enqueue(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    world.settled(300, Duration::from_secs(30)).await;
    tokio::time::timeout(Duration::from_secs(20), runtime.idle()).await.expect("idle");
    no_doubles(&world.db).await;
    assert_eq!(world.db.count("outbox_messages", "status = 'Published'").await, 300);
    assert_eq!(world.db.count("inbox_messages", "state = 'Processed'").await, 300);
    runtime.shutdown().await;
}

//! Many relays on one table.

use std::time::Duration;

use outbox::handlers;

use crate::producing::{commit, relay, rows, take, tally, tap};
use crate::world::{OrderCreated, World, enqueue};

/// F60: dotnetcore/CAP#1419, #1080 (30,000 sent, 45,000 received); spring-projects/spring-modulith#663, #926: the retry picks what is still in flight.
/// Three instances start on a table with a backlog, and are woken by signals, polls and sweeps at once while writers go on: without faults each event is
/// published once, and has one effect.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_three_relays_publish_each_event_once() {
    const EVENTS: usize = 10_000;
    let world = World::new().await;
    let wire = world.wire().await;
    let consumer =
        world.runtime(handlers![crate::world::reserve_stock]).role(outbox::Role::Consume).start().await.unwrap();
    outbox_it::eventually(Duration::from_secs(20), "the consumer", async || {
        wire.consumers("inventory").await == Some(1)
    })
    .await;
    tap(&wire, "copies", "orders.events", "#").await;
    // A backlog for the first look of all three; and a lease that is swept every second, where each sweep finds the others at work.
    enqueue(&world.db, 6_000, EVENTS).await;
    let start = |instance| {
        let lease = (Duration::from_secs(4), Duration::from_secs(3));
        relay(&world).instance(instance).relay_limits(100, 16 << 20).lease(lease.0, lease.1).start()
    };
    let (one, two, three) = tokio::join!(start("one"), start("two"), start("three"));
    let relays = [one.unwrap(), two.unwrap(), three.unwrap()];
    // Bulk, and single events that race with their own commit.
    let singles = async {
        for n in 0..500 {
            commit(&world.db, [OrderCreated::number(n).draft()]).await;
        }
    };
    tokio::join!(enqueue(&world.db, 500, 3_000), enqueue(&world.db, 3_000, 6_000), singles);
    let minute = Duration::from_secs(90);
    rows(&world.db, "status = 'Published'", EVENTS, minute).await;
    world.settled(EVENTS, minute).await;
    let copies = take(&wire, "copies", EVENTS).await;
    assert_eq!(tally(&copies).len(), EVENTS, "different events");
    let doubled = copies.len() - EVENTS;
    assert!(doubled * 1_000 < EVENTS, "{doubled} of {EVENTS} were published twice");
    println!("{doubled} of {EVENTS} were published twice");
    assert_eq!(world.db.count("outbox_messages", "attempt_count > 0").await, 0);
    for relay in &relays {
        relay.shutdown().await;
    }
    consumer.shutdown().await;
}

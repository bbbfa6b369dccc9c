//! A queue that is full takes nothing, and nothing that was confirmed is dropped to make room.

use std::time::Duration;

use outbox::handlers;

use crate::producing::{errors, relay, rows};
use crate::world::World;

const SOON: Duration = Duration::from_secs(60);

/// F31: rabbitmq/rabbitmq-server#995, #2313: confirmed and then dropped. No queue that we declare has a limit by itself, and all refuse.
#[tokio::test(flavor = "multi_thread")]
async fn declared_queues_have_no_length_limit_and_refuse_rather_than_drop() {
    let world = World::new().await;
    let runtime = world.runtime(handlers![crate::world::reserve_stock]).start().await.unwrap();
    let wire = world.wire().await;
    outbox_it::eventually(SOON, "the queue", async || wire.ready("inventory").await.is_some()).await;
    let queues = world.vhost.queues(&["name", "arguments", "durable"]).await;
    assert_eq!(queues.len(), 3, "{queues:?}");
    for queue in &queues {
        let arguments = queue["arguments"].to_string();
        assert!(!arguments.contains("x-max-length") && !arguments.contains("x-message-ttl"), "{queue}");
        assert!(arguments.contains("quorum") && queue["durable"] == true, "{queue}");
        let unreadable = queue["name"].as_str().unwrap().ends_with(".unreadable");
        assert_eq!(arguments.contains("reject-publish"), !unreadable, "{queue}");
    }
    runtime.shutdown().await;
}

async fn limit(world: &World, policy: &str) {
    let ctl = world.vhost.ctl();
    ctl.run(&["set_policy", "-p", world.vhost.name(), "short", "^inventory$", policy, "--apply-to", "queues"]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// F31, R3: a policy that sets a limit: with our `reject-publish` the broker nacks, nothing is spent, and everything arrives once the limit
/// is gone.
#[tokio::test(flavor = "multi_thread")]
async fn events_for_a_full_queue_wait_and_spend_nothing() {
    let world = World::new().await;
    let wire = world.wire().await;
    // The queue as the consumer declares it, and nobody who consumes.
    let consumer = || world.runtime(handlers![crate::world::reserve_stock]).role(outbox::Role::Consume).start();
    let first = consumer().await.unwrap();
    outbox_it::eventually(SOON, "the consumer", async || wire.consumers("inventory").await == Some(1)).await;
    first.shutdown().await;
    limit(&world, r#"{"max-length": 5}"#).await;
    // A quorum queue tells its publishers after the fact, so the first events over the limit still fit.
    let producer = relay(&world).start().await.unwrap();
    let nacked = "status = 'Pending' AND last_error LIKE '%nack%'";
    let mut orders = 0;
    while world.db.count("outbox_messages", nacked).await == 0 {
        assert!(orders < 400, "{:?}", world.vhost.queues(&["name", "messages", "policy", "arguments"]).await);
        world.enqueue(orders, orders + 20).await;
        orders += 20;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let held = world.db.count("outbox_messages", nacked).await;
    assert!(held > 0, "{:?}", errors(&world.db, "true").await);
    assert_eq!(world.db.count("outbox_messages", "attempt_count > 0").await, 0, "a nack spends nothing");
    let published = world.db.count("outbox_messages", "status = 'Published'").await;
    assert_eq!(wire.ready("inventory").await.map(i64::from), Some(published), "what was confirmed is there");

    world.vhost.ctl().run(&["clear_policy", "-p", world.vhost.name(), "short"]).await;
    rows(&world.db, "status = 'Published'", orders, SOON).await;
    let last = consumer().await.unwrap();
    world.settled(orders, SOON).await;
    last.shutdown().await;
    producer.shutdown().await;
}

/// F31: a policy's own `drop-head` is stronger than our argument. What a queue drops goes to its dead-letter queue, and from there to the
/// consumer (C7): even then nothing that was confirmed is lost.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_a_policy_drops_are_handled_by_way_of_the_dead_letter_queue() {
    let world = World::new().await;
    let wire = world.wire().await;
    let consumer = || world.runtime(handlers![crate::world::reserve_stock]).role(outbox::Role::Consume).start();
    let first = consumer().await.unwrap();
    outbox_it::eventually(SOON, "the consumer", async || wire.consumers("inventory").await == Some(1)).await;
    first.shutdown().await;
    limit(&world, r#"{"max-length": 5, "overflow": "drop-head"}"#).await;
    let producer = relay(&world).start().await.unwrap();
    world.enqueue(0, 40).await;
    rows(&world.db, "status = 'Published'", 40, SOON).await;
    outbox_it::eventually(SOON, "dropped events", async || wire.ready("inventory.dead").await.unwrap_or(0) >= 30).await;
    let last = consumer().await.unwrap();
    world.settled(40, SOON).await;
    last.shutdown().await;
    producer.shutdown().await;
}

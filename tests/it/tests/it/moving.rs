//! From the database as the broker to RabbitMQ, on a live system: what waits in the old queues is still handled, new events go to RabbitMQ.

use std::time::Duration;

use outbox::{Broker, Role, handlers};
use outbox_it::eventually;

use crate::database_broker::builder as on_database;
use crate::world::{World, enqueue, no_doubles};

/// Every stage of the move has events in flight: in the old queue, in the outbox, new ones; old and new instances overlap.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_system_moves_to_rabbitmq_and_nothing_is_lost_or_doubled() {
    let world = World::new().await;
    let old = on_database(&world.db, handlers![crate::world::reserve_stock]).start().await.expect("start");
    enqueue(&world.db, 0, 100).await;
    world.settled(100, Duration::from_secs(20)).await;
    old.shutdown().await;
    // In the old queue, with nobody to take them.
    let relay = on_database(&world.db, []).role(Role::Relay).start().await.expect("start");
    enqueue(&world.db, 100, 300).await;
    eventually(Duration::from_secs(20), "200 messages in the queue", async || {
        world.db.count("queue_messages", "true").await == 200
    })
    .await;
    relay.shutdown().await;
    // In the outbox, routed by nobody yet.
    enqueue(&world.db, 300, 400).await;

    // A new configuration by mistake is refused, with the words that make it meant.
    let refused = world.runtime(handlers![crate::world::reserve_stock]).start().await.expect_err("refused").to_string();
    assert!(refused.contains("`database`") && refused.contains("`rabbitmq`"), "{refused}");
    assert!(refused.contains("OUTBOX_BROKER_MOVED_FROM=database"), "{refused}");
    assert_eq!(world.db.count("queue_messages", "true").await, 200, "a refused start takes nothing");

    // An old instance still runs while the new one starts, as in a rolling update; both work on everything.
    let old = on_database(&world.db, handlers![crate::world::reserve_stock]).start().await.expect("start");
    let new = world
        .runtime(handlers![crate::world::reserve_stock])
        .moved_from(Broker::Database)
        .start()
        .await
        .expect("the move is meant");
    enqueue(&world.db, 400, 500).await;
    world.settled(500, Duration::from_secs(30)).await;
    old.shutdown().await;
    enqueue(&world.db, 500, 600).await;
    world.settled(600, Duration::from_secs(30)).await;
    tokio::time::timeout(Duration::from_secs(20), new.idle()).await.expect("idle");
    assert_eq!(world.db.count("queue_messages", "true").await, 0, "the old queue has run empty");
    no_doubles(&world.db).await;
    new.shutdown().await;

    // There is no way back by accident, and the word may stay in the configuration.
    let back = on_database(&world.db, handlers![crate::world::reserve_stock]).start().await.expect_err("no way back");
    assert!(back.to_string().contains("`rabbitmq`"), "{back}");
    let again = world.runtime(handlers![crate::world::reserve_stock]).moved_from(Broker::Database).start().await;
    again.expect("it may stay").shutdown().await;
}

/// The queue of the database that is left is watched for good: an old instance may put messages into it long after.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_old_instance_routes_after_the_move_is_handled() {
    let world = World::new().await;
    let old = on_database(&world.db, handlers![crate::world::reserve_stock]).start().await.expect("start");
    old.shutdown().await;
    let old_relay = on_database(&world.db, []).role(Role::Relay).start().await.expect("start");
    let new = world
        .runtime(handlers![crate::world::reserve_stock])
        .role(Role::Consume)
        .moved_from(Broker::Database)
        .start()
        .await
        .expect("start");
    for round in 0..3 {
        enqueue(&world.db, round * 50, (round + 1) * 50).await;
        world.settled((round + 1) * 50, Duration::from_secs(20)).await;
    }
    old_relay.shutdown().await;
    new.shutdown().await;
}

/// Only the database can be left: messages in RabbitMQ would wait where nobody looks.
#[tokio::test(flavor = "multi_thread")]
async fn leaving_rabbitmq_is_refused_with_what_to_do() {
    let world = World::new().await;
    let new = world.runtime(handlers![crate::world::reserve_stock]).start().await.expect("start");
    new.shutdown().await;
    let url = world.vhost.url().to_owned();
    let refused = on_database(&world.db, handlers![crate::world::reserve_stock])
        .moved_from(Broker::RabbitMq(url))
        .start()
        .await
        .expect_err("refused")
        .to_string();
    assert!(refused.contains("run empty") && refused.contains("outbox_settings"), "{refused}");
    let twice = on_database(&world.db, handlers![crate::world::reserve_stock]).moved_from(Broker::Database);
    let twice = twice.start().await.expect_err("nonsense").to_string();
    assert!(twice.contains("so is the one that was left"), "{twice}");
}

//! Exchanges, queues and bindings (T1, T2).

use std::time::Duration;

use lapin::types::AMQPValue;
use outbox::{Declare, handlers};
use outbox_it::{Logs, eventually, rabbit_wire::table};

use crate::world::{OrderCreated, World, effect};

#[outbox::handler(consumer = "mail")]
async fn send_mail(order: OrderCreated, db: &mut sqlx::PgConnection) -> sqlx::Result<()> {
    effect(db, "mail", &order.order_id).await
}

/// T1: everything is durable, quorum, limited in deliveries, and dead-letters into the next net.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_has_its_queues_under_the_namespace() {
    let world = World::new().await;
    let runtime = world.runtime(handlers![crate::world::reserve_stock]).namespace("shop").start().await.unwrap();
    world.enqueue(0, 3).await;
    world.settled(3, Duration::from_secs(15)).await;
    let queues = world.vhost.queues(&["name", "type", "durable", "arguments"]).await;
    let mut names: Vec<&str> = queues.iter().filter_map(|queue| queue["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["shop.inventory", "shop.inventory.dead", "shop.inventory.unreadable"]);
    for queue in &queues {
        assert_eq!(queue["type"].as_str(), Some("quorum"), "{queue}");
        assert!(queue["durable"].to_string().contains("true"), "{queue}");
    }
    assert!(world.wire().await.has_exchange("shop.orders.events").await);
    runtime.shutdown().await;
}

/// T2: one wrong queue gives one clear error, and nothing else stops.
#[tokio::test(flavor = "multi_thread")]
async fn one_wrong_queue_is_told_and_stops_nothing_else() {
    let world = World::new().await;
    let wire = world.wire().await;
    let arguments = table([("x-queue-type", AMQPValue::LongString("classic".into()))]);
    wire.queue_with("mail", arguments).await;
    let fast = world.runtime(handlers![crate::world::reserve_stock, send_mail]).fail_fast(true).start().await;
    let text = format!("{:?}", fast.expect_err("it must not start"));
    for part in ["queue \"mail\"", "406", "x-dead-letter-exchange", "Declare::Passive"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    let logs = Logs::capture();
    let runtime = world.runtime(handlers![crate::world::reserve_stock, send_mail]).start().await.unwrap();
    world.enqueue(0, 5).await;
    eventually(Duration::from_secs(15), "the effects of the other consumer", async || {
        world.db.count("effects", "consumer = 'inventory'").await == 5
    })
    .await;
    logs.assert_present(&["the broker refused an entity", "mail", "406"]);
    let health = runtime.health();
    assert!(!health.ready && health.to_string().contains("queue \"mail\""), "{health}");
    runtime.shutdown().await;
}

/// T2: `Passive` creates nothing and tells what is missing; what somebody else created is used.
#[tokio::test(flavor = "multi_thread")]
async fn passive_creates_nothing_and_tells_what_is_missing() {
    let world = World::new().await;
    let builder = || world.runtime(handlers![crate::world::reserve_stock]).declare(Declare::Passive);
    let text = format!("{:?}", builder().fail_fast(true).start().await.expect_err("it must not start"));
    for part in ["exchange \"orders.events\"", "queue \"inventory\"", "404", "Declare::On"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    assert!(!world.wire().await.has_exchange("orders.events").await, "nothing was created");
    let creator = world.runtime(handlers![crate::world::reserve_stock]).start().await.unwrap();
    eventually(Duration::from_secs(10), "everything declared", async || creator.health().ready).await;
    creator.shutdown().await;
    let runtime = builder().fail_fast(true).start().await.unwrap();
    world.enqueue(0, 3).await;
    world.settled(3, Duration::from_secs(15)).await;
    runtime.shutdown().await;
}

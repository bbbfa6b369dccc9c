//! Events whose consumer does not exist yet, and the event types that say otherwise.

use std::time::Duration;

use outbox::handlers;

use crate::meter::Meter;
use crate::producing::{Optional, Urgent, commit, errors, relay, rows};
use crate::world::World;

const SOON: Duration = Duration::from_secs(20);

/// F37: dotnetcore/CAP#1508, #223; Particular/NServiceBus.RabbitMQ#135; JasperFx/wolverine#1650: nobody bound yet, and the message is gone.
#[tokio::test(flavor = "multi_thread")]
async fn events_wait_for_a_consumer_that_starts_later() {
    let world = World::new().await;
    let producer = relay(&world).start().await.unwrap();
    world.enqueue(0, 50).await;
    rows(&world.db, "status = 'Pending' AND attempt_count >= 2", 50, SOON).await;
    let held = errors(&world.db, "true").await;
    assert!(held.iter().all(|e| e.contains("NO_ROUTE") && e.contains("orders.events") && e.contains("order.created")));
    // Backoff: two tries were spent, and the next one is over a second away from the one before.
    assert_eq!(world.db.count("outbox_messages", "attempt_count > 3").await, 0);
    let consumer = world.runtime(handlers![crate::world::reserve_stock]).role(outbox::Role::Consume).start().await;
    let consumer = consumer.unwrap();
    world.settled(50, SOON).await;
    rows(&world.db, "status = 'Published' AND last_error IS NULL", 50, SOON).await;
    consumer.shutdown().await;
    producer.shutdown().await;
}

/// F37, R4: the opt-outs. `discard`: no subscriber is fine. `fail`: no subscriber is a failure after the event's budget.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_type_chooses_what_no_subscriber_means() {
    let meter = Meter::install();
    let world = World::new().await;
    let drafts = (0..20).flat_map(|n| {
        let order_id = format!("order-{n}");
        [Optional { order_id: order_id.clone() }.draft(), Urgent { order_id }.draft()]
    });
    commit(&world.db, drafts).await;
    world.enqueue(0, 20).await;
    world.db.execute("UPDATE outbox_messages SET max_attempts = 2").await;
    let runtime = relay(&world).start().await.unwrap();
    rows(&world.db, "status = 'Published' AND event_type = 'order.optional'", 20, SOON).await;
    rows(&world.db, "status = 'Failed' AND event_type = 'order.urgent' AND attempt_count = 2", 20, SOON).await;
    rows(&world.db, "status = 'Pending' AND event_type = 'order.created' AND attempt_count >= 2", 20, SOON).await;
    let failed = errors(&world.db, "status = 'Failed'").await;
    assert!(failed.len() == 1 && failed[0].contains("NO_ROUTE") && failed[0].contains("order.urgent"), "{failed:?}");
    assert!(meter.counter(outbox::telemetry::names::FAILED, "") >= 20);
    runtime.shutdown().await;
}

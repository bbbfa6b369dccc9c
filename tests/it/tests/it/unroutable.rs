//! Whether an event found a queue is known of each event, however many are under way.

use std::time::Duration;

use outbox::Draft;

use crate::producing::{Unwanted, commit, errors, relay, rows, take, tally, tap};
use crate::world::{ORDER_CREATED, OrderCreated, World};

/// F01: amqp-rs/lapin#252, #289; rabbitmq/amqp091-go#45: a `basic.return` is attached to another event's confirm under load.
/// 20 batches of 500 with every tenth event unroutable: exactly those are held, with exchange and key; each other one is at its queue once.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_unroutable_events_of_large_batches_are_held() {
    const EVENTS: usize = 10_000;
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", ORDER_CREATED).await;
    let draft = |n: usize| -> Draft {
        if n % 10 == 3 {
            Unwanted { order_id: format!("order-{n:06}") }.draft()
        } else {
            OrderCreated::number(n).draft()
        }
    };
    let ids = commit(&world.db, (0..EVENTS).map(draft)).await;
    let (unwanted, wanted): (Vec<_>, Vec<_>) = ids.into_iter().enumerate().partition(|(n, _)| n % 10 == 3);

    let runtime = relay(&world).relay_limits(500, 16 << 20).start().await.unwrap();
    let minute = Duration::from_secs(60);
    rows(&world.db, "status = 'Published' OR attempt_count >= 1", EVENTS, minute).await;
    let lost = world.db.count("outbox_messages", "event_type = 'order.unwanted' AND status = 'Published'").await;
    assert_eq!(lost, 0, "unroutable events that count as Published: they are lost");
    let taken = take(&wire, "orders", wanted.len()).await;
    let tally = tally(&taken);
    let missing: Vec<_> = wanted.iter().filter(|(_, id)| !tally.contains_key(id)).collect();
    let doubled: Vec<_> = tally.iter().filter(|(_, n)| **n > 1).collect();
    assert!(missing.is_empty(), "{} events are Published and not at their queue: {missing:?}", missing.len());
    assert!(doubled.is_empty(), "{} events were published twice: {doubled:?}", doubled.len());
    assert_eq!(taken.len(), wanted.len());

    let held = "event_type = 'order.unwanted' AND status IN ('Pending', 'Processing') AND last_error IS NOT NULL";
    rows(&world.db, held, unwanted.len(), Duration::from_secs(5)).await;
    assert_eq!(world.db.count("outbox_messages", "event_type = 'order.created' AND status <> 'Published'").await, 0);
    assert_eq!(world.db.count("outbox_messages", "event_type = 'order.created' AND attempt_count <> 0").await, 0);
    let errors = errors(&world.db, held).await;
    assert_eq!(errors.len(), 1, "{errors:?}");
    for part in ["312", "NO_ROUTE", "orders.events", "order.unwanted"] {
        assert!(errors[0].contains(part), "{part} in {errors:?}");
    }
    runtime.shutdown().await;
}

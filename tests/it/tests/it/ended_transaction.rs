//! What a handler's own SQL cannot do.

use std::time::Duration;

use outbox::{handler, handlers};
use outbox_it::eventually;
use sqlx::PgConnection;

use crate::world::{OrderCreated, World, effect};

#[outbox::event(name = "order.booked", exchange = "orders.events", key = order_id)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct OrderBooked {
    order_id: String,
}

#[handler(consumer = "rollback")]
async fn rolls_back_and_returns_an_event(order: OrderCreated, db: &mut PgConnection) -> sqlx::Result<OrderBooked> {
    effect(&mut *db, "rollback", &order.order_id).await?;
    let end = if order.order_id.ends_with('1') { "COMMIT" } else { "ROLLBACK" };
    sqlx::raw_sql(end).execute(db).await?;
    Ok(OrderBooked { order_id: order.order_id })
}

/// C1: what a handler returns after it ended the transaction by itself is not written: it would be committed at once, for a message that is Dead.
#[tokio::test(flavor = "multi_thread")]
async fn no_event_leaves_a_run_that_ended_its_own_transaction() {
    let world = World::new().await;
    let runtime = world.runtime(handlers![rolls_back_and_returns_an_event]).start().await.unwrap();
    world.enqueue(0, 2).await;
    eventually(Duration::from_secs(20), "both are dead", async || {
        world.db.count("parked_messages", "status = 'Dead' AND reason = 'the handler ended the transaction'").await == 2
    })
    .await;
    assert_eq!(world.db.count("outbox_messages", "event_type = 'order.booked'").await, 0);
    assert_eq!(world.db.count("inbox_messages", "state = 'Processed'").await, 0);
    runtime.shutdown().await;
}

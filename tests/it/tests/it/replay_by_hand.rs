//! What an operator does by SQL (docs/operations.md), and what a handler's own SQL cannot do.

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

#[handler(consumer = "picky", retry(immediate = 0, delays = "50ms..100ms", max_attempts = 1))]
async fn picky(order: OrderCreated, db: &mut PgConnection) -> anyhow::Result<()> {
    let open: bool = sqlx::query_scalar("SELECT EXISTS (SELECT FROM open)").fetch_one(&mut *db).await?;
    anyhow::ensure!(open, "closed");
    Ok(effect(db, "picky", &order.order_id).await?)
}

/// The SQL of docs/operations.md runs a Dead message again; half of it is told, not retried in silence for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_message_runs_again_when_both_rows_are_turned_and_half_of_it_is_told() {
    let world = World::new().await;
    world.db.execute("CREATE TABLE open (yes int)").await;
    let runtime = world.runtime(handlers![picky]).start().await.unwrap();
    world.enqueue(0, 2).await;
    eventually(Duration::from_secs(20), "both are dead", async || {
        world.db.count("parked_messages", "status = 'Dead' AND reason = 'attempts spent'").await == 2
    })
    .await;
    world.db.execute("INSERT INTO open VALUES (1)").await;

    let half = "UPDATE parked_messages SET status = 'Retrying', attempts = 0, next_attempt_at = now() \
                WHERE parked_id = (SELECT min(parked_id) FROM parked_messages)";
    world.db.execute(half).await;
    eventually(Duration::from_secs(20), "half a replay is told", async || {
        world
            .db
            .count(
                "parked_messages",
                "status = 'Dead' AND reason = 'dedup record disagrees' AND error LIKE '%both rows%'",
            )
            .await
            == 1
    })
    .await;
    assert_eq!(world.db.count("effects", "true").await, 0);

    world
        .db
        .execute(
            "BEGIN; \
             UPDATE inbox_messages SET state = 'Retrying' WHERE consumer = 'picky' AND state = 'Dead'; \
             UPDATE parked_messages SET status = 'Retrying', attempts = 0, next_attempt_at = now() WHERE consumer = 'picky' AND status = 'Dead'; \
             COMMIT",
        )
        .await;
    world.settled(2, Duration::from_secs(20)).await;
    assert_eq!(world.db.count("parked_messages", "true").await, 0);
    runtime.shutdown().await;
}

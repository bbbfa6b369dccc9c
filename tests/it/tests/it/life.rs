//! The life of a runtime: shutdown, and handlers that block.

use std::time::Duration;

use outbox::{Cancelled, handler, handlers};
use outbox_it::eventually;
use sqlx::PgConnection;

use crate::world::{OrderCreated, World, effect, no_doubles};

#[handler(consumer = "slow", concurrency = 4, timeout = "60s")]
async fn slow(order: OrderCreated, db: &mut PgConnection, cancelled: Cancelled) -> sqlx::Result<()> {
    effect(db, "slow", &order.order_id).await?;
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = tokio::time::sleep(Duration::from_secs(30)) => {}
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(())
}

/// Shutdown: handlers in flight finish and are acked, the rest is delivered again to the next runtime; nothing is spent.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_handlers_finish_and_gives_the_rest_back() {
    let world = World::new().await;
    let first = world.runtime(handlers![slow]).start().await.unwrap();
    world.enqueue(0, 12).await;
    eventually(Duration::from_secs(15), "four handlers at work", async || {
        world.db.sessions("state = 'idle in transaction'").await == 4
    })
    .await;
    first.shutdown().await;
    assert_eq!(world.db.count("effects", "true").await, 4, "what was in flight is committed");
    assert_eq!(world.wire().await.ready("slow").await, Some(8), "and acked; the others went back");
    assert_eq!(world.db.count("parked_messages", "true").await, 0, "nothing was parked");
    assert_eq!(world.db.idle_in_transaction(Duration::ZERO).await, 0, "no transaction is left open");
    drop(first);
    let second = world.runtime(handlers![reserve_as_slow]).start().await.unwrap();
    eventually(Duration::from_secs(20), "all effects", async || {
        world.db.number("SELECT count(DISTINCT order_id) FROM effects").await == 12
    })
    .await;
    no_doubles(&world.db).await;
    second.shutdown().await;
}

#[handler(consumer = "slow", concurrency = 4)]
async fn reserve_as_slow(order: OrderCreated, db: &mut PgConnection) -> sqlx::Result<()> {
    effect(db, "slow", &order.order_id).await
}

#[handler(consumer = "blocking", concurrency = 4)]
async fn blocks_its_thread(order: OrderCreated, db: &mut PgConnection) -> sqlx::Result<()> {
    effect(db, "blocking", &order.order_id).await?;
    std::thread::sleep(Duration::from_secs(4));
    Ok(())
}

/// R2: a handler that blocks its thread starves neither the relay nor a heartbeat, even on a single-threaded runtime.
#[tokio::test(flavor = "current_thread")]
async fn a_handler_that_blocks_its_thread_does_not_starve_the_relay() {
    let world = World::new().await;
    let runtime = world.runtime(handlers![blocks_its_thread]).start().await.unwrap();
    let db_url = world.db.url();
    // Its own thread and connections: the test's own thread is the one that is blocked.
    let witness = std::thread::spawn(move || {
        let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        own.block_on(async {
            let pool = sqlx::PgPool::connect(&db_url).await.unwrap();
            let enqueue = async |n: usize| {
                let mut tx = pool.begin().await.unwrap();
                OrderCreated::number(n).enqueue(&mut tx).await.unwrap();
                tx.commit().await.unwrap();
            };
            enqueue(0).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            enqueue(1).await;
            tokio::time::sleep(Duration::from_millis(1200)).await;
            let published: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_messages WHERE status = 'Published'")
                .fetch_one(&pool)
                .await
                .unwrap();
            published
        })
    });
    while !witness.is_finished() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(witness.join().unwrap(), 2, "the second event was published while the handler blocked the thread");
    runtime.shutdown().await;
}

/// `stopping()` ends when a shutdown begins; `run()` with `signals(false)` returns after it.
#[tokio::test(flavor = "multi_thread")]
async fn stopping_tells_the_service_that_a_shutdown_began() {
    let world = World::new().await;
    let runtime = std::sync::Arc::new(world.runtime(handlers![crate::world::reserve_stock]).start().await.unwrap());
    let waiting = tokio::spawn({
        let runtime = std::sync::Arc::clone(&runtime);
        async move { runtime.stopping().await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    tokio::join!(runtime.shutdown(), runtime.shutdown());
    tokio::time::timeout(Duration::from_secs(1), waiting).await.unwrap().unwrap();
}

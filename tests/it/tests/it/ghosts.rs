//! F57: events that escape their transaction.

use std::time::Duration;

use futures_util::FutureExt as _;
use outbox::handlers;
use sqlx::Acquire as _;

use crate::world::{OrderCreated, World, settled};

const SOON: Duration = Duration::from_secs(30);

/// F57: MassTransit/MassTransit#4990 (a publish nobody waited for was lost after the flush), #5813 (another interface went past the outbox). Each way to
/// leave a transaction, while a relay and a consumer run: what was not committed has no effect, and what was has one. (That the compiler speaks up when
/// nobody awaits is `tests/ui/fail/event/enqueue_is_not_awaited.rs`; after the commit there is no transaction to give to a task.)
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_committed_has_no_effect_and_what_is_has_one() {
    let world = World::new().await;
    let runtime = world.runtime(handlers![crate::world::reserve_stock]).start().await.unwrap();
    let (left, right) = (world.db.pool_of(3), world.db.pool_of(3));
    let order = OrderCreated::number;
    let mut committed = Vec::new();
    for round in 0..20 {
        let n = move |way: usize| round * 10 + way;

        // Never awaited: never written.
        let mut tx = left.begin().await.unwrap();
        let unpolled = order(n(0));
        drop(unpolled.enqueue(&mut tx));
        order(n(1)).enqueue(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        committed.push(n(1));

        // Dropped in the middle of its statement, and the transaction with it.
        let mut tx = left.begin().await.unwrap();
        let halfway = order(n(2));
        let _ = halfway.enqueue(&mut tx).now_or_never();
        drop(tx);

        // Written, then rolled back.
        let mut tx = right.begin().await.unwrap();
        order(n(3)).enqueue(&mut tx).await.unwrap();
        tx.rollback().await.unwrap();

        // A savepoint that is rolled back, in a transaction that is not; and one that is kept, in one that is not.
        let mut tx = right.begin().await.unwrap();
        let mut inner = tx.begin().await.unwrap();
        order(n(4)).enqueue(&mut inner).await.unwrap();
        inner.rollback().await.unwrap();
        order(n(5)).enqueue(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        committed.push(n(5));
        let mut tx = right.begin().await.unwrap();
        let mut inner = tx.begin().await.unwrap();
        order(n(6)).enqueue(&mut inner).await.unwrap();
        inner.commit().await.unwrap();
        drop(tx);

        // Two pools at the same time: each event goes the way of its own transaction.
        let (mut one, mut two) = (left.begin().await.unwrap(), right.begin().await.unwrap());
        order(n(7)).enqueue(&mut one).await.unwrap();
        order(n(8)).enqueue(&mut two).await.unwrap();
        one.rollback().await.unwrap();
        two.commit().await.unwrap();
        committed.push(n(8));

        // A task that has the transaction for itself and ends without a commit.
        let mut tx = left.begin().await.unwrap();
        tokio::spawn(async move { order(n(9)).enqueue(&mut tx).await.map(drop) }).await.unwrap().unwrap();
    }
    settled(&world.db, committed.len(), SOON).await;
    tokio::time::timeout(SOON, runtime.idle()).await.expect("idle");
    let effects: Vec<String> =
        sqlx::query_scalar("SELECT order_id FROM effects ORDER BY 1").fetch_all(world.db.pool()).await.unwrap();
    let mut wanted: Vec<String> = committed.into_iter().map(|n| order(n).order_id).collect();
    wanted.sort();
    assert_eq!(effects, wanted);
    assert_eq!(world.db.idle_in_transaction(Duration::from_secs(1)).await, 0);
    runtime.shutdown().await;
}

//! Enqueue: in the caller's transaction, checked before anything is written.

use outbox::Enqueue;

use crate::world::{OrderCreated, World};

/// Bad input: every problem of one event at once, with its place, before anything is sent; the transaction goes on.
#[tokio::test(flavor = "multi_thread")]
async fn all_problems_of_an_event_are_told_at_once_before_anything_is_written() {
    let world = World::new().await;
    let mut tx = world.db.pool().begin().await.unwrap();
    let order = OrderCreated { order_id: "€".repeat(86), quantity: 1 };
    let options = Enqueue::new()
        .event_id("x".repeat(65))
        .correlation_id("a\0b")
        .header("", "empty key")
        .header("x-death", "reserved")
        .header("big", u64::MAX)
        .header("k".repeat(300), 1);
    let error = order.enqueue_with(&mut tx, options).await.unwrap_err();
    let text = error.to_string();
    for part in [
        "`order.created`",
        "world.rs:",
        "the key \"€€",
        "has 258 bytes, the limit is 255",
        "the event id",
        "has 65 bytes, the limit is 64",
        "the correlation id",
        "has a character that is not allowed",
        "the header key \"\" is empty",
        "x-death",
        "is reserved",
        "above i64::MAX",
        "kkk",
    ] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    OrderCreated::number(1).enqueue(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.db.count("outbox_messages", "true").await, 1);
}

/// A missing table says what to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_says_what_to_do() {
    let db = outbox_it::TestDatabase::new().await;
    let mut tx = db.pool().begin().await.unwrap();
    let error = OrderCreated::number(1).enqueue(&mut tx).await.unwrap_err();
    assert!(error.to_string().contains("outbox::migrate"), "{error}");
}

/// Promise 1, the escape hatch for other ORMs: a bare connection with an open transaction.
#[tokio::test(flavor = "multi_thread")]
async fn events_on_a_bare_connection_go_with_its_transaction() {
    let world = World::new().await;
    let mut connection = world.db.pool().acquire().await.unwrap();
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await.unwrap();
    outbox::enqueue_on_connection::<sqlx::Postgres>(&mut connection, [OrderCreated::number(1).draft()]).await.unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await.unwrap();
    assert_eq!(world.db.count("outbox_messages", "true").await, 0);
}

/// Promise 1: what a savepoint rolled back never existed.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolled_back_savepoint_takes_its_events_with_it() {
    use sqlx::Acquire as _;
    let world = World::new().await;
    let mut tx = world.db.pool().begin().await.unwrap();
    OrderCreated::number(1).enqueue(&mut tx).await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    OrderCreated::number(2).enqueue(&mut inner).await.unwrap();
    inner.rollback().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.db.count("outbox_messages", "aggregate_id = 'order-000001'").await, 1);
    assert_eq!(world.db.count("outbox_messages", "true").await, 1);
}

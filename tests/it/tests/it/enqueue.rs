//! Enqueue: in the caller's transaction, checked before anything is written.

use outbox::{Enqueue, EnqueueError};

use crate::world::{OrderCreated, World};

#[outbox::event(name = "article.reserved", exchange = "stock.events")]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct StockReserved {
    article: String,
}

/// S2: a repeated id is a typed error, and the caller's transaction goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_id_is_a_typed_error_and_the_transaction_goes_on() {
    let world = World::new().await;
    let order = OrderCreated::number(1);
    let mut tx = world.db.pool().begin().await.unwrap();
    order.enqueue_with(&mut tx, Enqueue::new().event_id("mine")).await.unwrap();
    let error = order.enqueue_with(&mut tx, Enqueue::new().event_id("mine")).await.unwrap_err();
    assert!(matches!(&error, EnqueueError::Duplicate { ids } if ids[0] == "mine"), "{error}");
    order.enqueue(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.db.count("outbox_messages", "true").await, 2);
}

/// S2: of many, all are written or none, and the error names the ids that were there.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_events_all_are_written_or_none() {
    let world = World::new().await;
    let draft = |n: usize, id: &str| outbox::Draft::new(&OrderCreated::number(n), Enqueue::new().event_id(id));
    let mut tx = world.db.pool().begin().await.unwrap();
    let mixed = [draft(1, "a"), draft(2, "b"), StockReserved { article: "x".into() }.draft()];
    let ids = outbox::enqueue_all(&mut tx, mixed).await.unwrap();
    assert_eq!(ids.len(), 3);
    assert_eq!((ids[0].as_str(), ids[1].as_str()), ("a", "b"), "in the order of the drafts");
    let error = outbox::enqueue_all(&mut tx, [draft(3, "c"), draft(4, "a"), draft(5, "b")]).await.unwrap_err();
    assert_eq!(error.to_string(), "already in the outbox: a, b");
    let error = outbox::enqueue_all(&mut tx, [draft(6, "d"), draft(7, "d")]).await.unwrap_err();
    assert_eq!(error.to_string(), "already in the outbox: d");
    assert!(outbox::enqueue_all(&mut tx, []).await.unwrap().is_empty());
    tx.commit().await.unwrap();
    assert_eq!(world.db.count("outbox_messages", "event_id IN ('a', 'b')").await, 2);
    assert_eq!(world.db.count("outbox_messages", "true").await, 3);
    let kinds: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT event_type, exchange, aggregate_type FROM outbox_messages WHERE event_type LIKE 'article%'",
    )
    .fetch_all(world.db.pool())
    .await
    .unwrap();
    assert_eq!(kinds, [("article.reserved".into(), "stock.events".into(), "article".into())]);
}

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

//! The broker "database" on PostgreSQL: what is its own, beside the behaviours of the matrix.

use std::time::Duration;

use outbox::{Broker, HandlerDescriptor, Role, RuntimeBuilder, handlers};
use outbox_it::{OwnPostgres, TestDatabase, eventually};

use crate::world::{enqueue, no_doubles, prepare, settled};

/// A builder with the database as the broker.
pub fn builder<const N: usize>(db: &TestDatabase, handlers: [&'static HandlerDescriptor; N]) -> RuntimeBuilder {
    crate::world::builder(db.url(), "", handlers).broker(Broker::Database)
}

/// Promises 1 to 3 without RabbitMQ, with several instances on one table.
#[tokio::test(flavor = "multi_thread")]
async fn three_instances_share_the_queue_and_each_event_has_one_effect() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    let mut runtimes = Vec::new();
    for _ in 0..3 {
        runtimes.push(builder(&db, handlers![crate::world::reserve_stock]).start().await.expect("start"));
    }
    enqueue(&db, 0, 1000).await;
    settled(&db, 1000, Duration::from_secs(30)).await;
    tokio::time::timeout(Duration::from_secs(20), runtimes[0].idle()).await.expect("idle");
    no_doubles(&db).await;
    assert_eq!(db.count("outbox_messages", "status = 'Published'").await, 1000);
    assert_eq!(db.count("inbox_messages", "state = 'Processed'").await, 1000);
    assert_eq!(db.count("queue_messages", "true").await, 0, "what is handled has left its queue");
    for runtime in runtimes {
        runtime.shutdown().await;
    }
}

/// The budgets of the broker "database", counted by the server: 1 statement routes a batch, 1 claims a batch of messages, and 1 beside the handler's
/// own makes the dedup record and takes the message out of its queue.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_statements_stay_within_their_budgets() {
    let postgres = OwnPostgres::start(&[("shared_preload_libraries", "pg_stat_statements")]).await;
    let db = postgres.database().await;
    prepare(&db).await;
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    // The queue is bound, and nobody consumes yet.
    builder(&db, handlers![crate::world::reserve_stock]).start().await.expect("start").shutdown().await;

    enqueue(&db, 0, 500).await;
    forget(&db).await;
    let relay = builder(&db, []).role(Role::Relay).start().await.expect("start");
    eventually(Duration::from_secs(20), "500 messages in the queue", async || {
        db.count("queue_messages", "true").await == 500
    })
    .await;
    relay.shutdown().await;
    // The server adds up all calls of a statement, those that found nothing as well; rows of one transaction tell that one of them did it all.
    let transactions = db.number("SELECT count(DISTINCT xmin::text) FROM queue_messages").await;
    assert_eq!(transactions, 1, "one statement for the batch");
    let scans = calls(&db, "INSERT INTO queue_messages").await;
    let others = calls(&db, "outbox_messages").await - scans;
    assert!(others <= 12, "{others} statements beside it: sweeps, figures and retention, per interval");

    forget(&db).await;
    let runtime = builder(&db, handlers![crate::world::reserve_stock]).start().await.expect("start");
    settled(&db, 500, Duration::from_secs(30)).await;
    runtime.idle().await;
    assert_eq!(calls(&db, "INSERT INTO effects").await, 500, "the handler's own statement");
    assert_eq!(calls(&db, "INSERT INTO inbox_messages").await, 500, "one for dedup record and message");
    assert_eq!(calls(&db, "^DELETE FROM queue_messages").await, 0, "no statement of its own for the ack");
    assert_eq!(
        calls(&db, "^BEGIN ISOLATION LEVEL READ COMMITTED$").await,
        500 + 1,
        "one begin; one of the migration check"
    );
    // Sixteen places are filled again when at least one is free: about one claim for eight messages.
    let claims = calls(&db, "SET deliveries = LEAST").await;
    assert!(claims <= 200, "{claims} claims for 500 messages, those that found nothing as well");
    runtime.shutdown().await;
}

async fn calls(db: &TestDatabase, pattern: &str) -> i64 {
    let sql = format!(
        "SELECT COALESCE(sum(calls), 0)::bigint FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid \
         WHERE d.datname = current_database() AND query ~ '{pattern}'"
    );
    db.number(&sql).await
}

async fn forget(db: &TestDatabase) {
    db.execute("SELECT pg_stat_statements_reset()").await;
}

/// Rows that somebody wrote by hand: each is Dead with what is wrong, and the good ones that are claimed with them are handled.
#[tokio::test(flavor = "multi_thread")]
async fn broken_messages_in_the_queue_are_parked_and_their_neighbours_go_on() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    builder(&db, handlers![crate::world::reserve_stock]).start().await.expect("start").shutdown().await;
    let broken = [
        ("'infinity'", "now()", "'{}'", 1, "occurred_at"),
        ("now()", "'-infinity'", "'{}'", 1, "enqueued_at"),
        ("'294276-12-31'", "now()", "'{}'", 1, "occurred_at"),
        ("'4713-01-01 BC'", "now()", "'{}'", 1, "occurred_at"),
        ("now()", "now()", "'[1]'", 1, "headers"),
        ("now()", "now()", "'{}'", 0, "event_version"),
    ];
    for (index, (occurred_at, enqueued_at, headers, version, _)) in broken.iter().enumerate() {
        db.execute(&format!(
            "INSERT INTO queue_messages (queue, event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload, headers,
                                         occurred_at, enqueued_at)
             VALUES ('inventory', 'broken-{index}', 'x', 'order.created', {version}, 'orders.events', 'order.created', 'flat',
                     '{{\"order_id\":\"broken\",\"quantity\":1}}', {headers}, {occurred_at}, {enqueued_at})"
        ))
        .await;
    }
    db.execute(
        "INSERT INTO parked_messages (consumer, event_id, event_type, body, properties, status, reason, attempts)
         VALUES ('inventory', 'spent', 'order.created', '{}', '{}', 'Retrying', 'by hand', 2147483647)",
    )
    .await;
    enqueue(&db, 0, 30).await;
    let runtime = builder(&db, handlers![crate::world::reserve_stock]).start().await.expect("start");
    settled(&db, 30, Duration::from_secs(20)).await;
    tokio::time::timeout(Duration::from_secs(20), runtime.idle()).await.expect("idle");
    assert!(runtime.health().ready, "{}", runtime.health());
    for (index, (_, _, _, _, said)) in broken.iter().enumerate() {
        let condition = format!(
            "event_id = 'broken-{index}' AND status = 'Dead' AND reason = 'undecodable' AND error LIKE '%{said}%'"
        );
        assert_eq!(db.count("parked_messages", &condition).await, 1, "{said}");
    }
    assert_eq!(db.count("parked_messages", "event_id = 'spent' AND status = 'Dead'").await, 1);
    runtime.shutdown().await;
}

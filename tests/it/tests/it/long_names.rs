//! Names and ids that AMQP cannot carry are refused where they come from, and a row that somebody forged harms nobody else.

use std::time::Duration;

use outbox::{ConsumerOptions, Enqueue, EnqueueError, handler, handlers};

use crate::producing::{commit, errors, forge, relay, rows, take, tally, tap};
use crate::world::{OrderCreated, World};

const SOON: Duration = Duration::from_secs(20);
/// 86 characters, 258 bytes.
fn long() -> String {
    "€".repeat(86)
}

/// F10: rabbitmq/rabbitmq-dotnet-client#1952 (bytes, not characters); bloomberg/rmqcpp#54: what is over 255 bytes hangs or panics later.
#[tokio::test]
async fn what_is_too_long_is_refused_at_enqueue_with_its_name_and_limit() {
    let world = World::new().await;
    let mut tx = world.db.pool().begin().await.unwrap();
    let order = OrderCreated::number(1);
    let table: [(Enqueue, &[&str]); 6] = [
        (Enqueue::new().event_id("i".repeat(65)), &["event id", "65 bytes", "64"]),
        (Enqueue::new().event_id("é".repeat(33)), &["event id", "66 bytes", "64"]),
        (Enqueue::new().correlation_id(long()), &["correlation id", "258 bytes", "255"]),
        (Enqueue::new().causation_id(long()), &["causation id", "258 bytes", "255"]),
        (Enqueue::new().header(long(), 1), &["header key", "258 bytes", "255"]),
        (Enqueue::new().header("table", serde_json::json!({ long(): 1 })), &["table", "255"]),
    ];
    for (options, parts) in table {
        let error = order.enqueue_with(&mut tx, options).await.unwrap_err();
        assert!(matches!(error, EnqueueError::Invalid { .. }), "{error:?}");
        for part in parts {
            assert!(error.to_string().contains(part), "{part:?} in {error}");
        }
    }
    let error = OrderCreated { order_id: long(), quantity: 1 }.enqueue(&mut tx).await.unwrap_err();
    for part in ["key", "258 bytes", "255"] {
        assert!(error.to_string().contains(part), "{part:?} in {error}");
    }
    // All at once, and the transaction is still usable.
    let error = OrderCreated { order_id: long(), quantity: 1 }
        .enqueue_with(&mut tx, Enqueue::new().event_id("i".repeat(65)).correlation_id(long()))
        .await
        .unwrap_err();
    for part in ["key", "event id", "correlation id"] {
        assert!(error.to_string().contains(part), "{part:?} in {error}");
    }
    order.enqueue_with(&mut tx, Enqueue::new().event_id("i".repeat(64)).correlation_id("€".repeat(85))).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.db.count("outbox_messages", "true").await, 1);
}

const LONG_EXCHANGE: &str = "an-exchange-whose-name-is-two-hundred-bytes-long-and-legal-on-its-own-but-not-with-a-namespace-in-front-of-it-----------------------------------------------------------------------------------------2";

#[outbox::event(name = "long.exchange", exchange = LONG_EXCHANGE)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct LongExchange {
    pub n: i32,
}

#[handler(consumer = "long-exchange")]
async fn from_a_long_exchange(_event: LongExchange) -> anyhow::Result<()> {
    Ok(())
}

async fn refused(builder: outbox::RuntimeBuilder) -> String {
    let error = builder.start().await.expect_err("a start error");
    let text = format!("{error:?}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// F10: nuwber/rabbitevents#124 (a suffix pushes a legal name over); rabbitmq/rabbitmq-server#2967.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_with_our_suffix_or_prefix_is_refused_at_start() {
    let world = World::new().await;
    let queue = "q".repeat(250);
    let options = ConsumerOptions::new().queue(&queue);
    let text = refused(world.runtime(handlers![crate::world::reserve_stock]).consumer("inventory", options)).await;
    for part in ["inventory", "queue", "250 bytes", "244", "shorten"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let namespace = "n".repeat(60);
    let text = refused(world.runtime(handlers![from_a_long_exchange]).namespace(&namespace)).await;
    for part in ["exchange", "long.exchange", "255", "shorten"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let text = refused(relay(&world).namespace("n".repeat(200))).await;
    assert!(text.contains("namespace") && text.contains("128"), "{text}");
    // As long as it may be.
    let options = ConsumerOptions::new().queue("q".repeat(244));
    let runtime =
        world.runtime(handlers![crate::world::reserve_stock]).consumer("inventory", options).start().await.unwrap();
    world.enqueue(0, 3).await;
    world.settled(3, SOON).await;
    runtime.shutdown().await;
}

/// F10: a row written by hand: the table takes no name that is too long.
#[tokio::test]
async fn the_table_takes_no_name_that_is_too_long() {
    let world = World::new().await;
    for column in ["event_type", "exchange", "routing_key", "aggregate_id", "aggregate_type"] {
        forge(&world.db, "row", &format!("{column} = repeat('x', 255)")).await;
        let sql = format!("UPDATE outbox_messages SET {column} = repeat('€', 100)");
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(world.db.pool()).await.unwrap_err();
        assert_eq!(error.as_database_error().and_then(|e| e.code()).as_deref(), Some("23514"), "{column}: {error}");
        world.db.execute("DELETE FROM outbox_messages").await;
    }
    let id = "UPDATE outbox_messages SET event_id = repeat('x', 65)";
    forge(&world.db, "row", "event_version = 1").await;
    assert!(sqlx::query(id).execute(world.db.pool()).await.is_err());
}

/// F10, R3, promise 4: rows that AMQP, lapin or our own decoding cannot take (here without the table's checks) are refused one by one, with
/// a reason; every other event flows, no loop panics, and no connection is closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_row_is_refused_alone_and_without_a_panic() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", "#").await;
    let checks: Vec<String> = sqlx::query_scalar(
        "SELECT conname::text FROM pg_constraint WHERE conrelid = 'outbox_messages'::regclass AND contype = 'c' AND conname NOT LIKE '%status%'",
    )
    .fetch_all(world.db.pool())
    .await
    .unwrap();
    for check in checks {
        world.db.execute(&format!("ALTER TABLE outbox_messages DROP CONSTRAINT {check}")).await;
    }
    let euro = "repeat('€', 100)";
    let forged = [
        ("long-exchange", format!("exchange = {euro}")),
        ("long-key", format!("routing_key = {euro}")),
        ("long-type", format!("event_type = {euro}")),
        ("long-header", format!("headers = jsonb_build_object({euro}, 1)")),
        ("long-nested-key", format!("headers = jsonb_build_object('a', jsonb_build_object({euro}, 1))")),
        ("long-correlation", format!("headers = jsonb_build_object('outbox-correlation-id', {euro})")),
        ("huge-integer", "headers = '{\"n\": 18446744073709551615}'".into()),
        ("huge-number", "headers = ('{\"n\": 1' || repeat('0', 500) || '}')::jsonb".into()),
        ("deep-header", "headers = ('{\"n\": ' || repeat('[', 200) || repeat(']', 200) || '}')::jsonb".into()),
        ("huge-headers", "headers = jsonb_build_object('a', repeat('x', 300000))".into()),
        (
            "many-numbers",
            "headers = jsonb_build_object('a', (SELECT jsonb_agg(1) FROM generate_series(1, 30000)))".into(),
        ),
        ("headers-array", "headers = '[1]'".into()),
        ("occurred-never", "occurred_at = '-infinity'".into()),
        ("occurred-late", "occurred_at = '290000-01-01'".into()),
        ("enqueued-never", "enqueued_at = '-infinity'".into()),
        ("enqueued-late", "enqueued_at = 'infinity'".into()),
        ("due-for-ever", "next_attempt_at = '-infinity'".into()),
        ("negative-bytes", "payload_bytes = -2147483648".into()),
        ("unknown-policy", "unroutable = 'whatever'".into()),
        ("unknown-envelope", "envelope = 'whatever'".into()),
        ("no-budget", "max_attempts = 0".into()),
        ("many-refusals", format!("routing_key = {euro}, attempt_count = 2147483647, max_attempts = 2147483647")),
        ("many-attempts", "attempt_count = 2147483647, max_attempts = 2147483647".into()),
    ];
    for (id, set) in &forged {
        forge(&world.db, id, set).await;
    }
    world.db.execute("UPDATE outbox_messages SET max_attempts = 2 WHERE event_id NOT IN ('no-budget', 'many-attempts', 'many-refusals')").await;
    let ids = commit(&world.db, (0..100).map(|n| OrderCreated::number(n).draft())).await;
    let runtime = relay(&world).start().await.unwrap();
    let ours = "event_id LIKE '0%' AND status = 'Published' AND attempt_count = 0";
    rows(&world.db, ours, 100, SOON).await;
    commit(&world.db, (100..200).map(|n| OrderCreated::number(n).draft())).await;
    rows(&world.db, ours, 200, SOON).await;
    rows(&world.db, "status IN ('Pending', 'Processing')", 0, SOON).await;

    let refused: Vec<(String, String, String)> =
        sqlx::query_as("SELECT event_id, status, coalesce(last_error, '') FROM outbox_messages WHERE event_id NOT LIKE '0%' ORDER BY 1")
            .fetch_all(world.db.pool())
            .await
            .unwrap();
    let fine = ["due-for-ever", "negative-bytes", "unknown-policy", "unknown-envelope", "no-budget", "many-attempts"];
    for (id, status, error) in &refused {
        println!("{id}: {status}: {error}");
        if fine.contains(&id.as_str()) {
            assert_eq!(status, "Published", "{id}: {error}");
        } else {
            assert_eq!(status, "Failed", "{id}: {error}");
            assert!(!error.is_empty(), "{id}");
        }
    }
    let taken = tally(&take(&wire, "orders", 200 + fine.len()).await);
    assert!(ids.iter().all(|id| taken.get(id) == Some(&1)));
    let health = runtime.health();
    assert!(health.ready, "{health}");
    for part in health.components.iter().filter(|part| part.name.starts_with("loop")) {
        assert_eq!(part.failures, 0, "{part:?}");
    }
    let publisher = health.component("broker publisher").unwrap();
    assert!(publisher.failures <= 1, "the connection was closed: {publisher:?}");
    runtime.shutdown().await;
    assert!(errors(&world.db, "event_id = 'long-key'").await[0].contains("routing key has 300 bytes"));
}

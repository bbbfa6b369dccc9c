//! A service that was quiet for a long time, and then is not.

use std::time::{Duration, Instant};

use outbox::Role;
use outbox_it::{TestDatabase, TestVhost};

use crate::producing::{rows, tap};
use crate::world::{builder, enqueue, prepare};

const SOON: Duration = Duration::from_secs(60);

/// Plans that were made while the table was small are not kept: with them each settle of a batch would read the whole table, and a few hundred
/// events would be published in this time.
/// Nothing tells the server of the growth here: autovacuum, which would, comes late or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_burst_into_a_quiet_outbox_does_not_stop_the_relay() {
    let (db, vhost) = tokio::join!(TestDatabase::new(), TestVhost::new());
    prepare(&db).await;
    db.execute("ALTER TABLE outbox_messages SET (autovacuum_enabled = false)").await;
    tap(&vhost.wire().await, "orders", "orders.events", "#").await;
    let runtime = builder(db.url(), vhost.url(), []).role(Role::Relay).start().await.unwrap();
    // Often enough for every statement of the relay to be planned for good.
    for n in 0..40 {
        enqueue(&db, n, n + 1).await;
        rows(&db, "status = 'Published'", n + 1, SOON).await;
    }
    db.execute(
        "INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, exchange, routing_key, payload, payload_bytes)
         SELECT 'burst-' || n, 'order', 'burst-' || n % 50, CASE WHEN n % 2 = 0 THEN n END, 'order.created', 'orders.events', 'order.created', '{\"quantity\":1}', 14
         FROM generate_series(1, 20000) AS n",
    )
    .await;
    let begun = Instant::now();
    rows(&db, "status = 'Published'", 20_040, Duration::from_secs(90)).await;
    println!("20,000 events in {:?}", begun.elapsed());
    assert_eq!(db.count("outbox_messages", "unknown_count > 0").await, 0, "no lease was lost");
    runtime.shutdown().await;
}

/// What the relay has given up ends on the server as well: abandoned, it would keep its locks, and each further try would wait for them.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_takes_too_long_ends_on_the_server_too() {
    let (db, vhost) = tokio::join!(TestDatabase::new(), TestVhost::new());
    prepare(&db).await;
    tap(&vhost.wire().await, "orders", "orders.events", "#").await;
    let lease = (Duration::from_secs(3), Duration::from_secs(1));
    let runtime = builder(db.url(), vhost.url(), []).role(Role::Relay).lease(lease.0, lease.1).start().await.unwrap();
    enqueue(&db, 0, 10).await;
    rows(&db, "status = 'Published'", 10, SOON).await;
    let mut holder = db.pool().begin().await.unwrap();
    sqlx::query("LOCK TABLE outbox_messages IN EXCLUSIVE MODE").execute(&mut *holder).await.unwrap();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let oldest = "SELECT COALESCE(extract(epoch FROM max(clock_timestamp() - query_start)) * 1000, 0)::bigint FROM pg_stat_activity
                  WHERE datname = current_database() AND application_name = 'outbox relay' AND state = 'active'";
    let oldest: i64 = sqlx::query_scalar(oldest).fetch_one(&mut *holder).await.unwrap();
    holder.rollback().await.unwrap();
    assert!(oldest < 2_000, "a statement of the relay runs for {oldest} ms; its deadline is half a lease");
    enqueue(&db, 10, 20).await;
    rows(&db, "status = 'Published'", 20, SOON).await;
    runtime.shutdown().await;
}

//! What an operator sees: metrics with their labels, a span for each run, supervised loops.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use outbox::telemetry::names;
use outbox::{handler, handlers};
use outbox_it::{Logs, eventually};
use sqlx::PgConnection;

use crate::world::{OrderCreated, World, effect};

#[handler(consumer = "moody", retry(immediate = 0, delays = "50ms..100ms", max_attempts = 2))]
async fn moody(order: OrderCreated, db: &mut PgConnection) -> anyhow::Result<()> {
    effect(db, "moody", &order.order_id).await?;
    anyhow::ensure!(order.order_id != "order-000001", "this one never works");
    Ok(())
}

#[outbox::event(name = "nobody.cares", exchange = "orders.events")]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct NobodyCares {}

/// `name{label=value,..}` -> what was recorded, added up for counters.
fn recorded(snapshotter: &Snapshotter, totals: &mut BTreeMap<String, f64>) {
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels: Vec<String> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.key().name(), labels.join(","));
        match value {
            // A snapshot takes what was counted since the last one.
            DebugValue::Counter(count) => *totals.entry(name).or_default() += count as f64,
            DebugValue::Gauge(level) => {
                // A snapshot sets gauges back to zero: keep the highest level that was seen.
                let highest = totals.entry(name).or_default();
                *highest = highest.max(level.into_inner());
            }
            DebugValue::Histogram(values) => *totals.entry(name).or_default() += values.len() as f64,
        }
    }
}

/// Each change of a row's or a delivery's state is counted, latencies are measured, and the log has one span for each run.
#[tokio::test(flavor = "multi_thread")]
async fn alone_every_change_of_state_is_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    let logs = Logs::capture();
    let world = World::new().await;
    let runtime = world.runtime(handlers![moody]).start().await.unwrap();
    world.enqueue(0, 10).await;
    let mut tx = world.db.pool().begin().await.unwrap();
    NobodyCares {}.enqueue(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    eventually(Duration::from_secs(20), "nine effects and one dead message", async || {
        world.db.count("effects", "true").await == 9 && world.db.count("parked_messages", "status = 'Dead'").await == 1
    })
    .await;
    let mut totals = BTreeMap::new();
    eventually(Duration::from_secs(15), "the figures of the outbox", async || {
        recorded(&snapshotter, &mut totals);
        totals.get("outbox_parked_dead{}") == Some(&1.0)
            && totals.get("outbox_held{}") == Some(&1.0)
            && totals.get("outbox_oldest_unpublished_seconds{}") > Some(&0.0)
    })
    .await;
    let of = |key: &str| totals.get(key).copied().unwrap_or_default();
    let consumer = "consumer=moody";
    for (key, want) in [
        ("outbox_enqueued_total{event=order.created}".to_owned(), 10.0),
        ("outbox_published_total{event=order.created}".to_owned(), 10.0),
        (format!("outbox_handled_total{{{consumer},event=order.created}}"), 9.0),
        (format!("outbox_received_total{{{consumer}}}"), 10.0),
        (format!("outbox_handler_failures_total{{{consumer},event=order.created,cause=error}}"), 2.0),
        (format!("outbox_parked_total{{{consumer},reason=handler failed}}"), 1.0),
        (format!("outbox_dead_total{{{consumer},reason=attempts spent}}"), 1.0),
        (format!("outbox_effect_latency_seconds{{{consumer},event=order.created}}"), 9.0),
        (format!("outbox_handler_seconds{{{consumer},event=order.created}}"), 11.0),
        ("outbox_publish_latency_seconds{event=order.created}".to_owned(), 10.0),
        ("outbox_broker_connected{role=publisher}".to_owned(), 1.0),
        ("outbox_broker_connected{role=consumer}".to_owned(), 1.0),
        (format!("outbox_subscribed{{{consumer}}}"), 1.0),
        ("outbox_listening{}".to_owned(), 1.0),
    ] {
        assert_eq!(of(&key), want, "{key} in {totals:#?}");
    }
    assert!(of("outbox_unroutable_total{event=nobody.cares}") >= 1.0, "{totals:#?}");
    assert!(of("outbox_confirm_seconds{}") >= 1.0);
    assert!(of("outbox_loops_expected{}") >= 7.0);
    assert_eq!(of("outbox_loops_alive{}"), of("outbox_loops_expected{}"));
    for key in totals.keys().filter(|key| key.starts_with("outbox")) {
        let name = key.split('{').next().unwrap();
        assert!(ALL.contains(&name), "{name} is recorded and stands in no constant");
    }
    logs.assert_present(&["a run failed", "consumer=moody", "event=order.created", "this one never works"]);
    logs.assert_present(&["outbox.handle{consumer=moody event=order.created event_id="]);
    runtime.shutdown().await;
}

const ALL: &[&str] = &[
    names::ENQUEUED,
    names::CLAIMED,
    names::DEFERRED,
    names::RELEASED,
    names::PUBLISHED,
    names::UNROUTABLE,
    names::NACKED,
    names::UNKNOWN,
    names::REFUSED,
    names::FAILED,
    names::LEASE_LOST,
    names::LEASE_EXPIRED,
    names::PUT_BACK,
    names::PURGED,
    names::ARCHIVED,
    names::ALERTS_DROPPED,
    names::ALERTS_FAILED,
    names::CONFIRM_SECONDS,
    names::PUBLISH_LATENCY_SECONDS,
    names::PENDING,
    names::PROCESSING,
    names::HELD,
    names::BLOCKED,
    names::LATER,
    names::FAILED_NOW,
    names::EXPIRED_NOW,
    names::OLDEST_UNPUBLISHED_SECONDS,
    names::OLDEST_SNAPSHOT_SECONDS,
    names::DEAD_ROWS,
    names::LISTENING,
    names::WAKEUPS,
    names::RECEIVED,
    names::HANDLED,
    names::DUPLICATES,
    names::HANDLER_FAILURES,
    names::CONFLICTS,
    names::PARKED,
    names::DEAD,
    names::ABANDONED,
    names::ACK_LOST,
    names::RESUBSCRIBED,
    names::INBOX_PURGED,
    names::HANDLER_SECONDS,
    names::EFFECT_LATENCY_SECONDS,
    names::IN_FLIGHT,
    names::RETRYING_NOW,
    names::DEAD_NOW,
    names::SUBSCRIBED,
    names::LAST_DELIVERY,
    names::UNREADABLE,
    names::BROKER_CONNECTED,
    names::BROKER_BLOCKED,
    names::DATABASE_AVAILABLE,
    names::LOOPS_ALIVE,
    names::LOOPS_EXPECTED,
    names::LOOP_RESTARTS,
];

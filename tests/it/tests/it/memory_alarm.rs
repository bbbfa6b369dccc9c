//! F09: a broker that takes no messages while its alarm lasts.

use std::time::{Duration, Instant};

use outbox::telemetry::names;
use outbox_it::{OwnBroker, TestDatabase, eventually};

use crate::meter::Meter;
use crate::parked_retry::copy_of;
use crate::scripted::{Script, parked, quick, runtime_at};
use crate::world::{enqueue, prepare, settled};

const SOON: Duration = Duration::from_secs(30);

/// F09: during the alarm consumers drain their queue, `health()` and the metric tell it, nothing is spent, an instance stops within its limit; after it
/// all is published and handled.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_consumers_drain_during_a_memory_alarm_and_an_instance_can_stop() {
    let meter = Meter::install();
    let (broker, db) = tokio::join!(OwnBroker::start(), TestDatabase::new());
    prepare(&db).await;
    let script = Script::done();
    let start = async || {
        let builder = runtime_at(&db.url(), &broker.url(), &script, quick()).shutdown_timeout(Duration::from_secs(8));
        builder.start().await.unwrap()
    };
    // The queue is there and has 300 messages before anybody consumes.
    let first = start().await;
    let wire = broker.wire().await;
    eventually(SOON, "the queue is there", async || wire.ready("scripted").await.is_some()).await;
    first.shutdown().await;
    wire.publish_all("", "scripted", (0..300).map(|n| copy_of(n, &format!("queued-{n}")))).await;
    drop(wire);
    broker.set_memory_alarm(true).await;

    let (one, two) = (start().await, start().await);
    enqueue(&db, 300, 800).await;
    settled(&db, 300, SOON).await;
    let told = async || {
        one.health()
            .component("broker publisher")
            .is_some_and(|part| !part.up && part.error.as_deref().is_some_and(|error| error.contains("blocked")))
    };
    eventually(SOON, "health tells it", told).await;
    assert_eq!(meter.gauge(names::BROKER_BLOCKED, "role=publisher"), Some(1.0));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(db.count("effects", "true").await, 300, "the queue is drained, nothing new is published");
    assert_eq!(db.count("outbox_messages", "attempt_count > 0 OR status = 'Published'").await, 0, "nothing is spent");
    let before = Instant::now();
    two.shutdown().await;
    assert!(before.elapsed() < Duration::from_secs(18), "{:?}", before.elapsed());
    assert!(parked(&db).await.is_empty());

    broker.set_memory_alarm(false).await;
    settled(&db, 800, Duration::from_secs(60)).await;
    eventually(SOON, "all is well", async || one.health().ready).await;
    assert_eq!(db.count("outbox_messages", "attempt_count > 0").await, 0);
    one.shutdown().await;
}

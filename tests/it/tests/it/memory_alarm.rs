//! F09: a broker that takes no messages while its alarm lasts.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use outbox::Role;
use outbox::telemetry::names;
use outbox_it::{Logs, OwnBroker, Process, TestDatabase, eventually};

use crate::meter::Meter;
use crate::ordered_enqueue::AccountChanged;
use crate::parked_retry::copy_of;
use crate::producing::{commit, id, rows, take, tap};
use crate::scripted::{Script, parked, quick, runtime_at};
use crate::world::{builder, enqueue, prepare, settled};

const SOON: Duration = Duration::from_secs(30);
const QUEUED: usize = 500;
const ALL: usize = 2_500;

/// F09: eandersson/amqpstorm#118, spring-projects/spring-amqp#673 (acks behind the blocked publisher), rabbitmq/rabbitmq-server#14660: 500 messages in the
/// queue and 2,000 events pending during the alarm. Consumers drain the queue, `health()` and the metric tell the reason, nothing is spent or parked, the log
/// stays short, and instances end within their limit, by a call and by SIGTERM; after it all is published and handled.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_consumers_drain_during_a_memory_alarm_and_an_instance_can_stop() {
    let (meter, logs) = (Meter::install(), Logs::capture());
    let (broker, db) = tokio::join!(OwnBroker::start(), TestDatabase::new());
    prepare(&db).await;
    let script = Script::done();
    let limit = Duration::from_secs(8);
    let start =
        async || runtime_at(&db.url(), &broker.url(), &script, quick()).shutdown_timeout(limit).start().await.unwrap();
    // The queue is there and has its messages before anybody consumes.
    let first = start().await;
    let wire = broker.wire().await;
    eventually(SOON, "the queue is there", async || wire.ready("scripted").await.is_some()).await;
    first.shutdown().await;
    wire.publish_all("", "scripted", (0..QUEUED).map(|n| copy_of(n, &format!("queued-{n}")))).await;
    drop(wire);
    let (database, amqp) = (db.url(), broker.url());
    let env = [
        ("DATABASE_URL", database.as_str()),
        ("AMQP_URL", &amqp),
        ("OUTBOX_SHUTDOWN_SECONDS", "8"),
        ("RUST_LOG", "info"),
    ];
    let mut child = Process::spawn(Path::new(env!("CARGO_BIN_EXE_relay")), &[], &env);
    child.wait_for_line("broker connected", SOON).await;
    broker.set_memory_alarm(true).await;
    let alarm = Instant::now();

    let (one, two) = (start().await, start().await);
    enqueue(&db, QUEUED, ALL).await;
    settled(&db, QUEUED, SOON).await;
    let told = async || {
        one.health()
            .component("broker publisher")
            .is_some_and(|part| !part.up && part.error.as_deref().is_some_and(|error| error.contains("blocked")))
    };
    eventually(SOON, "health tells it", told).await;
    assert_eq!(meter.gauge(names::BROKER_BLOCKED, "role=publisher"), Some(1.0));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        db.count("effects", "true").await,
        i64::try_from(QUEUED).unwrap(),
        "the queue is drained, nothing new is published"
    );
    assert_eq!(db.count("outbox_messages", "attempt_count > 0 OR status = 'Published'").await, 0, "nothing is spent");
    let before = Instant::now();
    two.shutdown().await;
    assert!(before.elapsed() < limit, "{:?}", before.elapsed());
    let before = Instant::now();
    child.signal("TERM");
    let status = child.wait(limit + Duration::from_secs(2)).await;
    assert_eq!(status.code(), Some(0), "{:#?}", child.lines());
    println!("the instance ended {:?} after SIGTERM", before.elapsed());
    assert!(before.elapsed() < limit, "{:?}", before.elapsed());
    assert!(child.lines().len() < 40, "{:#?}", child.lines());
    assert!(parked(&db).await.is_empty());
    let said = logs.with(&["WARN", "outbox_runtime"]);
    assert!(said.len() < 20, "{} lines in {:?}: {said:#?}", said.len(), alarm.elapsed());

    broker.set_memory_alarm(false).await;
    settled(&db, ALL, Duration::from_secs(60)).await;
    eventually(SOON, "all is well", async || one.health().ready).await;
    assert_eq!(meter.gauge(names::BROKER_BLOCKED, "role=publisher"), Some(0.0));
    assert_eq!(db.count("outbox_messages", "attempt_count > 0 OR status <> 'Published'").await, 0);
    assert!(parked(&db).await.is_empty());
    one.shutdown().await;
}

/// F09, R6: relays stop while the broker takes nothing and lines of ordered events are under way: within their limit, with nothing left claimed and nothing
/// spent. The next relay goes on, and among first occurrences each key is in its order.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_lines_that_a_shutdown_puts_back_during_an_alarm_go_on_in_order() {
    const KEYS: usize = 50;
    let (broker, db) = tokio::join!(OwnBroker::start(), TestDatabase::new());
    prepare(&db).await;
    let wire = broker.wire().await;
    tap(&wire, "ledger", "orders.events", "#").await;
    let limit = Duration::from_secs(6);
    let relay = || {
        let builder = builder(db.url(), &broker.url(), []).role(Role::Relay).shutdown_timeout(limit);
        builder.relay_limits(40, 16 << 20).start()
    };
    let mut written = 0;
    for round in 0..3 {
        let (one, two) = (relay().await.unwrap(), relay().await.unwrap());
        let blocked = |runtime: &outbox::Runtime| {
            let health = runtime.health();
            let publisher = health.component("broker publisher");
            publisher.and_then(|part| part.error.as_deref()).is_some_and(|error| error.contains("blocked"))
        };
        let writing = async {
            let begun = Instant::now();
            // A little further, so that more waits than what is under way.
            let mut after = 0;
            while after < 5 {
                let draft = |n| AccountChanged { account: format!("account-{n}"), step: written }.draft();
                commit(&db, (0..KEYS).map(draft)).await;
                written += 1;
                after += usize::from(blocked(&one) && blocked(&two));
                assert!(begun.elapsed() < SOON, "no relay is blocked");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let alarm = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            broker.set_memory_alarm(true).await;
        };
        tokio::join!(writing, alarm);
        let left = db.count("outbox_messages", "status <> 'Published'").await;
        let claimed = db.count("outbox_messages", "status = 'Processing'").await;
        let begun = Instant::now();
        tokio::join!(one.shutdown(), two.shutdown());
        println!("round {round}: {left} were left, {claimed} of them claimed; stopped in {:?}", begun.elapsed());
        assert!(left >= 4 * KEYS as i64, "the alarm stopped nobody");
        assert!(begun.elapsed() < limit + Duration::from_secs(3), "{:?}", begun.elapsed());
        assert_eq!(db.count("outbox_messages", "status = 'Processing'").await, 0, "nothing is left claimed");
        assert_eq!(db.count("outbox_messages", "attempt_count > 0").await, 0, "nothing is spent");
        broker.set_memory_alarm(false).await;
    }
    let last = relay().await.unwrap();
    rows(&db, "status = 'Published'", KEYS * written, Duration::from_secs(60)).await;
    last.shutdown().await;
    let messages = take(&wire, "ledger", KEYS * written).await;
    let (mut seen, mut next) = (HashSet::new(), BTreeMap::<String, usize>::new());
    for message in &messages {
        if seen.insert(id(message)) {
            let event: AccountChanged = serde_json::from_slice(&message.data).unwrap();
            let expected = next.entry(event.account.clone()).or_default();
            assert_eq!(event.step, *expected, "{}", event.account);
            *expected += 1;
        }
    }
    assert_eq!(seen.len(), KEYS * written, "every event is at the queue");
    println!("{} copies", messages.len() - seen.len());
}

//! A claim holds as long as its batch lives, and no longer than a lease after its relay is gone.

use std::path::Path;
use std::time::{Duration, Instant};

use outbox::handlers;
use outbox::telemetry::names;
use outbox_it::{Mode, Process, Proxy, TestDatabase, Way, eventually};

use crate::meter::Meter;
use crate::producing::{commit, errors, relay, rows, take, tally, tap};
use crate::scripted::{Act, Script, quick, runtime_at};
use crate::world::{OrderCreated, World, builder, prepare, settled};

const SOON: Duration = Duration::from_secs(40);

fn orders(from: usize, to: usize) -> impl Iterator<Item = outbox::Draft> {
    (from..to).map(|n| OrderCreated::number(n).draft())
}

/// R2, F52: hexpm/hexpm#1825, JasperFx/wolverine#587: a batch that takes longer than its lease is published a second time.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_slower_than_its_lease_is_not_taken_over() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", "#").await;
    let (proxy, url) = Proxy::for_url(world.vhost.url()).await;
    let lease = Duration::from_secs(2);
    let slow = builder(world.db.url(), &url, [])
        .role(outbox::Role::Relay)
        .instance("slow")
        .lease(lease, Duration::from_millis(1_900))
        .relay_limits(5, 16 << 20)
        .start()
        .await
        .unwrap();
    eventually(SOON, "the connection", async || slow.health().component("broker publisher").is_some_and(|c| c.up))
        .await;
    // A channel takes two round trips, each batch one more: 2.4 s for the first two, and the other two wait for them.
    proxy.set(Mode::Delay(Duration::from_millis(400)));
    commit(&world.db, orders(0, 20)).await;
    rows(&world.db, "status = 'Processing' AND locked_by LIKE 'slow:%'", 20, SOON).await;
    let began = Instant::now();
    let fast = relay(&world).instance("fast").lease(lease, Duration::from_secs(1)).start().await.unwrap();
    let mut taken_over = 0;
    while world.db.count("outbox_messages", "status <> 'Published'").await > 0 {
        for error in errors(&world.db, "last_error IS NOT NULL").await {
            println!("{error}");
        }
        taken_over += world.db.count("outbox_messages", "locked_by LIKE 'fast:%'").await;
        assert!(began.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(errors(&world.db, "last_error IS NOT NULL").await, Vec::<String>::new());
    assert!(began.elapsed() > lease, "the batches were not slower than a lease: {:?}", began.elapsed());
    assert_eq!(taken_over, 0, "rows of a living batch were taken over");
    assert_eq!(take(&wire, "orders", 20).await.len(), 20, "each was published once");
    assert_eq!(world.db.count("outbox_messages", "attempt_count > 0").await, 0);
    fast.shutdown().await;
    proxy.set(Mode::Pass);
    slow.shutdown().await;
}

/// F52: the consuming half: oban-bg/oban#1141, riverqueue/river#682: a handler that takes three times as long as the lease of its message, beside another
/// instance that looks for messages all the time, runs once.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_slower_than_its_lease_is_not_run_twice() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    let script = Script::new(|_, _| Act::sleep(3_000));
    let lease = (Duration::from_secs(1), Duration::from_millis(500));
    let start = async || {
        let builder = runtime_at(&db.url(), "", &script, quick()).broker(outbox::Broker::Database);
        builder.lease(lease.0, lease.1).start().await.unwrap()
    };
    let (one, two) = (start().await, start().await);
    commit(&db, orders(0, 12)).await;
    settled(&db, 12, SOON).await;
    tokio::time::timeout(SOON, one.idle()).await.expect("idle");
    assert_eq!(script.runs().len(), 12, "each ran once");
    assert_eq!(db.count("parked_messages", "true").await, 0);
    one.shutdown().await;
    two.shutdown().await;
}

/// R7: whoever lost its claim changes nothing when its confirms come late, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_lost_its_claims_changes_nothing_and_counts_them() {
    let meter = Meter::install();
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", "#").await;
    let (proxy, url) = Proxy::for_url(world.vhost.url()).await;
    let runtime = builder(world.db.url(), &url, []).role(outbox::Role::Relay).start().await.unwrap();
    commit(&world.db, orders(0, 5)).await;
    rows(&world.db, "status = 'Published'", 5, SOON).await;
    proxy.set(Mode::Stall(Way::ToClient));
    commit(&world.db, orders(5, 25)).await;
    rows(&world.db, "status = 'Processing'", 20, SOON).await;
    let thief = "UPDATE outbox_messages SET locked_by = 'thief', locked_until = now() + interval '1 hour'
                 WHERE event_id IN (SELECT event_id FROM outbox_messages WHERE status = 'Processing' ORDER BY event_id LIMIT 7)";
    world.db.execute(thief).await;
    let before = meter.counter(names::LEASE_LOST, "");
    proxy.set(Mode::Pass);
    rows(&world.db, "status = 'Published'", 18, SOON).await;
    eventually(SOON, "the lost leases are counted", async || meter.counter(names::LEASE_LOST, "") == before + 7).await;
    rows(
        &world.db,
        "status = 'Processing' AND locked_by = 'thief' AND attempt_count = 0 AND last_error IS NULL",
        7,
        SOON,
    )
    .await;
    runtime.shutdown().await;
    rows(&world.db, "locked_by = 'thief'", 7, SOON).await;
}

/// F53: JasperFx/wolverine#565, #4296; oban-bg/oban#862 (the same node name again); riverqueue/river#1258 (rows "running" for 91 days).
#[tokio::test(flavor = "multi_thread")]
async fn claims_of_a_killed_relay_are_taken_up_within_a_lease_by_its_namesake() {
    let meter = Meter::install();
    let world = World::new().await;
    let (proxy, url) = Proxy::for_url(world.vhost.url()).await;
    let consumer =
        world.runtime(handlers![crate::world::reserve_stock]).role(outbox::Role::Consume).start().await.unwrap();
    let database = world.db.url();
    let env = [
        ("DATABASE_URL", database.as_str()),
        ("AMQP_URL", &url),
        ("OUTBOX_INSTANCE", "the-same"),
        ("RELAY_LEASE_MS", "4000"),
        ("RELAY_CONFIRM_MS", "3500"),
        ("RUST_LOG", "info"),
    ];
    let mut child = Process::spawn(Path::new(env!("CARGO_BIN_EXE_relay")), &[], &env);
    child.wait_for_line("broker connected", SOON).await;
    world.enqueue(0, 1).await;
    world.settled(1, SOON).await;
    proxy.set(Mode::Stall(Way::ToClient));
    world.enqueue(1, 101).await;
    rows(&world.db, "status = 'Processing' AND locked_by LIKE 'the-same:%'", 100, SOON).await;
    child.kill();
    let killed = Instant::now();
    let lease = Duration::from_secs(4);
    let runtime = relay(&world).instance("the-same").lease(lease, Duration::from_secs(2)).start().await.unwrap();
    rows(&world.db, "status = 'Published'", 101, SOON).await;
    let took = killed.elapsed();
    // A lease, a sweep (at most a quarter of it), a poll, and time for a busy machine.
    assert!(took < lease + lease / 4 + Duration::from_secs(3), "{took:?}");
    world.settled(101, SOON).await;
    assert_eq!(world.db.count("outbox_messages", "status = 'Processing' AND locked_until < now()").await, 0);
    assert_eq!(world.db.count("outbox_messages", "attempt_count > 0").await, 0, "a killed relay spends nothing");
    assert!(meter.counter(names::LEASE_EXPIRED, "") >= 100);
    eventually(SOON, "the gauge of expired leases", async || meter.gauge(names::EXPIRED_NOW, "") == Some(0.0)).await;
    runtime.shutdown().await;
    consumer.shutdown().await;
}

/// R7, promise 1: a relay that ends in order gives back what it has, at once and unspent.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_gives_claims_back_unspent() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", "#").await;
    let (proxy, url) = Proxy::for_url(world.vhost.url()).await;
    let runtime = builder(world.db.url(), &url, [])
        .role(outbox::Role::Relay)
        .relay_limits(10, 16 << 20)
        .shutdown_timeout(Duration::from_secs(2))
        .start()
        .await
        .unwrap();
    eventually(SOON, "the connection", async || runtime.health().component("broker publisher").is_some_and(|c| c.up))
        .await;
    commit(&world.db, orders(0, 1)).await;
    rows(&world.db, "status = 'Published'", 1, SOON).await;
    proxy.set(Mode::Stall(Way::ToClient));
    commit(&world.db, orders(1, 101)).await;
    rows(&world.db, "status = 'Processing'", 40, SOON).await;
    let began = Instant::now();
    runtime.shutdown().await;
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(world.db.count("outbox_messages", "status = 'Pending' AND attempt_count = 0").await, 100);
    let next = relay(&world).start().await.unwrap();
    rows(&world.db, "status = 'Published'", 101, SOON).await;
    assert_eq!(tally(&take(&wire, "orders", 101).await).len(), 101);
    next.shutdown().await;
}

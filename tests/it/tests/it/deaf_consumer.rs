//! F05, F07, F08, F14: consumers whose connection goes away.

use std::time::{Duration, Instant};

use outbox::telemetry::names;
use outbox_it::{Logs, Mode, Proxy, Way, eventually, eventually_value};

use crate::meter::Meter;
use crate::scripted::{Act, Script, effects_of, parked, quick, runtime_at};
use crate::world::{World, no_doubles};

const SOON: Duration = Duration::from_secs(30);

/// F05: the connections are cut sixteen times at random moments while events flow. An event enqueued after each cut has its effect within ten
/// seconds, and `health()` and the metrics tell every loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_whose_connection_is_cut_again_and_again_hears_again_within_seconds() {
    let meter = Meter::install();
    let world = World::new().await;
    let (proxy, url) = Proxy::for_url(world.vhost.url()).await;
    let script = Script::new(|_, _| Act::sleep(30));
    let runtime = runtime_at(&world.db.url(), &url, &script, quick()).start().await.unwrap();
    let up = async || runtime.health().component("consumer scripted").is_some_and(|part| part.up);
    eventually(SOON, "subscribed", up).await;
    let failures = |part: &str| runtime.health().component(part).map_or(0, |part| part.failures);
    let (before, broker_before) = (failures("consumer scripted"), failures("broker consumer"));
    let mut next = 1000;
    for cut in 0..16 {
        world.enqueue(next, next + 10).await;
        tokio::time::sleep(Duration::from_millis(fast_random(cut) % 400)).await;
        proxy.reset_all();
        world.enqueue(cut, cut + 1).await;
        let start = Instant::now();
        eventually(Duration::from_secs(10), "the canary has its effect", async || {
            effects_of(&world.db, cut).await == 1
        })
        .await;
        assert!(start.elapsed() < Duration::from_secs(10));
        assert_eq!(meter.gauge(names::SUBSCRIBED, "consumer=scripted"), Some(1.0));
        next += 10;
    }
    world.settled(176, SOON).await;
    assert!(
        failures("consumer scripted") >= before + 14,
        "health counts the losses: {}",
        failures("consumer scripted")
    );
    assert!(failures("broker consumer") >= broker_before + 14);
    assert!(meter.counter(names::RESUBSCRIBED, "consumer=scripted") >= 14);
    let last = meter.gauge(names::LAST_DELIVERY, "consumer=scripted").unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((0.0..20.0).contains(&(now - last)), "the last delivery was {} s ago", now - last);
    // While it cannot come back, health says so.
    proxy.set(Mode::Refuse);
    proxy.reset_all();
    eventually(SOON, "health tells it", async || !up().await && !runtime.health().ready).await;
    assert_eq!(meter.gauge(names::SUBSCRIBED, "consumer=scripted"), Some(0.0));
    proxy.set(Mode::Pass);
    eventually(SOON, "and that it is over", async || runtime.health().ready).await;
    runtime.shutdown().await;
}

fn fast_random(seed: usize) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_usize(seed);
    hasher.finish()
}

/// F05: the operator closes the connections, and the queue is deleted under the consumer: it is declared and subscribed anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_comes_back_after_closed_connections_and_a_deleted_queue() {
    let world = World::new().await;
    let script = Script::done();
    let runtime = runtime_at(&world.db.url(), world.vhost.url(), &script, quick()).start().await.unwrap();
    world.enqueue(0, 5).await;
    world.settled(5, SOON).await;
    for round in 1..=2_usize {
        world.vhost.close_all_connections().await;
        world.enqueue(round * 10, round * 10 + 5).await;
        world.settled(5 + round * 5, SOON).await;
    }
    let wire = world.wire().await;
    wire.delete_queue("scripted").await;
    world.enqueue(100, 105).await;
    world.settled(20, SOON).await;
    runtime.shutdown().await;
}

/// F07: the connection is cut in the middle of slow handlers: their late acks acknowledge nothing, the prefetch is five again, no effect doubles.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_ack_acknowledges_nothing_and_the_prefetch_stays() {
    let meter = Meter::install();
    let world = World::new().await;
    let (proxy, url) = Proxy::for_url(world.vhost.url()).await;
    let script = Script::new(|_, _| Act::sleep(2_000));
    let options = quick().concurrency(5).prefetch(5);
    let runtime = runtime_at(&world.db.url(), &url, &script, options).start().await.unwrap();
    world.enqueue(0, 15).await;
    eventually(SOON, "five run", async || script.runs().len() == 5).await;
    let lost = meter.counter(names::ACK_LOST, "consumer=scripted");
    proxy.set(Mode::Refuse);
    proxy.reset_all();
    eventually(SOON, "five late acks are counted", async || {
        meter.counter(names::ACK_LOST, "consumer=scripted") == lost + 5
    })
    .await;
    assert_eq!(world.db.count("effects", "true").await, 5);
    let wire = world.wire().await;
    eventually(SOON, "all fifteen are still the broker's", async || wire.ready("scripted").await == Some(15)).await;
    proxy.set(Mode::Pass);
    eventually(SOON, "subscribed again", async || wire.consumers("scripted").await == Some(1)).await;
    let consumers = world.vhost.consumers().await;
    let of = |queue: &str| consumers.iter().filter(|row| row["queue_name"] == queue).collect::<Vec<_>>();
    assert_eq!((of("scripted").len(), &of("scripted")[0]["prefetch_count"]), (1, &serde_json::json!(5)));
    world.settled(15, SOON).await;
    assert_eq!(script.runs().len(), 15, "what was done was not run again");
    assert!(meter.counter(names::DUPLICATES, "consumer=scripted") >= 5);
    runtime.shutdown().await;
}

/// F14: connections are cut in the window between commit and ack, again and again: each delivery is acked once or not at all, the broker never closes a
/// channel over an ack (406), no effect doubles.
#[tokio::test(flavor = "multi_thread")]
async fn acks_that_are_lost_after_the_commit_double_nothing_and_close_no_channel() {
    let logs = Logs::capture();
    let meter = Meter::install();
    let world = World::new().await;
    let (proxy, url) = Proxy::for_url(world.vhost.url()).await;
    let script = Script::new(
        |order, run| if order.ends_with('7') && run == 1 { Act::Panic("after the work") } else { Act::Done },
    );
    let runtime = runtime_at(&world.db.url(), &url, &script, quick().concurrency(16)).start().await.unwrap();
    world.enqueue(0, 600).await;
    let mut cuts = 0;
    let mut done = 0;
    while done < 600 && cuts < 40 {
        eventually(SOON, "work goes on", async || world.db.count("effects", "true").await > done.min(595)).await;
        // Handlers commit, their acks vanish on the way.
        proxy.set(Mode::BlackHole(Way::ToServer));
        tokio::time::sleep(Duration::from_millis(60)).await;
        proxy.reset_all();
        proxy.set(Mode::Pass);
        cuts += 1;
        done = world.db.count("effects", "true").await;
    }
    assert!(cuts >= 3, "{cuts} cuts");
    world.settled(600, Duration::from_secs(60)).await;
    let empty = async || world.vhost.queues(&["name", "messages"]).await;
    eventually_value(SOON, "all is acked", empty, |rows| rows.iter().all(|row| row["messages"] == 0)).await;
    assert!(meter.counter(names::DUPLICATES, "consumer=scripted") > 0, "some acks were lost");
    no_doubles(&world.db).await;
    assert!(parked(&world.db).await.iter().all(|row| row.status == "Retrying"), "nothing is dead");
    assert!(
        logs.with(&["PRECONDITION_FAILED"]).is_empty()
            && logs.with(&["406"]).iter().all(|line| !line.contains("delivery tag"))
    );
    runtime.shutdown().await;
}

/// F08: amqp-rs/lapin#187, #404, #405; gftea/amqprs#125: the network swallows everything, both ways, without an end, for relay and consumer: noticed within
/// two heartbeats; claims that wait in it are nobody else's; after it heals all arrives once, and nothing is spent.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_network_that_swallows_everything_is_noticed_and_all_arrives_once() {
    let meter = Meter::install();
    let world = World::new().await;
    let (proxy, url) = Proxy::for_url(world.vhost.url()).await;
    let script = Script::done();
    // Shorter than the hole lasts: the lease holds since it is renewed.
    let lease = (Duration::from_secs(10), Duration::from_secs(8));
    let runtime = runtime_at(&world.db.url(), &url, &script, quick()).lease(lease.0, lease.1).start().await.unwrap();
    world.enqueue(0, 20).await;
    world.settled(20, SOON).await;
    proxy.set(Mode::BlackHole(Way::Both));
    let start = Instant::now();
    world.enqueue(20, 60).await;
    eventually(Duration::from_secs(5), "claims wait in the hole", async || {
        world.db.count("outbox_messages", "status = 'Processing'").await > 0
    })
    .await;
    let both_down = async || {
        let health = runtime.health();
        ["broker consumer", "broker publisher"].iter().all(|part| health.component(part).is_some_and(|part| !part.up))
    };
    eventually(Duration::from_secs(24), "both connections are known to be dead", both_down).await;
    assert!(start.elapsed() <= Duration::from_secs(22), "{:?}", start.elapsed());
    tokio::time::sleep(Duration::from_secs(26).saturating_sub(start.elapsed())).await;
    proxy.set(Mode::Pass);
    world.settled(60, Duration::from_secs(45)).await;
    tokio::time::timeout(SOON, runtime.idle()).await.expect("idle");
    no_doubles(&world.db).await;
    assert!(parked(&world.db).await.is_empty());
    assert_eq!(world.db.count("outbox_messages", "attempt_count > 0").await, 0, "nothing is spent");
    assert_eq!(
        (meter.counter(names::LEASE_LOST, ""), meter.counter(names::LEASE_EXPIRED, "")),
        (0, 0),
        "no lease is lost"
    );
    runtime.shutdown().await;
}

//! R3 on a real broker: what is wrong with one event, one exchange or one queue costs the others nothing.

use std::time::{Duration, Instant};

use lapin::types::{AMQPValue, FieldTable};
use outbox::{Declare, Role};
use outbox_it::rabbit_wire::{table, text};
use outbox_it::{PublishFaults, Rates, Wire};

use crate::producing::{AuditNoted, Unwanted, commit, errors, relay, rows, take, tally, tap};
use crate::world::{ORDER_CREATED, OrderCreated, World, builder};

const SOON: Duration = Duration::from_secs(30);

fn orders(from: usize, to: usize) -> impl Iterator<Item = outbox::Draft> {
    (from..to).map(|n| OrderCreated::number(n).draft())
}

fn notes(from: usize, to: usize) -> impl Iterator<Item = outbox::Draft> {
    (from..to).map(|n| AuditNoted { order_id: format!("note-{n}") }.draft())
}

/// R3: a row that breaks each connection that it is sent on, without a word from the broker. Everything else is published within seconds and spends
/// nothing; the row ends up alone, is tried more and more seldom, and what comes later hardly notices.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_breaks_each_connection_ends_up_alone() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", "#").await;
    tap(&wire, "audit", "audit.events", "#").await;
    let faults = PublishFaults::to(world.vhost.url(), Rates::default()).await;
    let ids = commit(&world.db, orders(0, 600).chain(notes(0, 400))).await;
    faults.break_at(&ids[237]);
    let poison = format!("event_id = '{}'", ids[237]);
    let runtime = builder(world.db.url(), faults.url(), []).role(Role::Relay).start().await.unwrap();
    let begun = Instant::now();
    rows(&world.db, "status = 'Published'", 999, SOON).await;
    let (took, connections) = (begun.elapsed(), faults.connections());
    let unknown =
        world.db.number("SELECT max(unknown_count)::bigint FROM outbox_messages WHERE status = 'Published'").await;
    println!(
        "999 neighbours published in {took:?} on {connections} connections; one of them was unknown {unknown} times at most"
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(world.db.count("outbox_messages", "attempt_count > 0").await, 0, "nobody's attempt is spent");

    // Alone: each try is one connection, and the pause grows.
    let mut made = Vec::new();
    for _ in 0..3 {
        let before = faults.connections();
        tokio::time::sleep(Duration::from_secs(10)).await;
        made.push(faults.connections() - before);
    }
    println!("connections in 10 s each: {made:?}");
    assert!(made.iter().all(|made| *made <= 4) && made[2] <= 2, "a hot loop: {made:?}");
    rows(&world.db, &format!("{poison} AND status = 'Pending' AND unknown_count >= 4 AND attempt_count = 0"), 1, SOON)
        .await;
    let pause = format!(
        "SELECT count(*) FROM outbox_messages WHERE {poison} AND next_attempt_at > now() + interval '1 second'"
    );
    outbox_it::eventually(SOON, "a pause of seconds", async || world.db.number(&pause).await == 1).await;
    let error = &errors(&world.db, &poison).await[0];
    assert!(error.contains("\"orders.events\"") && error.contains("\"order.created\""), "{error}");

    // What comes later, beside its tries.
    let begun = Instant::now();
    for n in 0..20 {
        commit(&world.db, orders(1_000 + n * 10, 1_010 + n * 10)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    rows(&world.db, "status = 'Published'", 1_199, Duration::from_secs(5)).await;
    println!("200 later ones within {:?}", begun.elapsed());
    assert_eq!(world.db.count("outbox_messages", "attempt_count > 0").await, 0);
    let taken = tally(&take(&wire, "orders", 799).await);
    assert_eq!(taken.len(), 799, "each is at its queue");
    assert_eq!(tally(&take(&wire, "audit", 400).await).len(), 400);

    // And it goes by itself when nothing breaks any more.
    faults.cure();
    rows(&world.db, "status = 'Published'", 1_200, Duration::from_secs(40)).await;
    runtime.shutdown().await;
}

/// R3: a thousand events to an exchange that does not exist, and a thousand to one that does, committed together. The missing one is asked with single events:
/// a batch that is still being written when the broker closes its channel may cost the connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_exchange_does_not_delay_another_one() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", "#").await;
    let mixed = (0..1_000).flat_map(|n| notes(n, n + 1).chain(orders(n, n + 1)));
    commit(&world.db, mixed).await;
    // Each of them is tried once, until its tries are counted.
    world.db.execute("UPDATE outbox_messages SET backoff_first = 60000 WHERE exchange = 'audit.events'").await;
    let faults = PublishFaults::to(world.vhost.url(), Rates::default()).await;
    let runtime =
        builder(world.db.url(), faults.url(), []).role(Role::Relay).declare(Declare::Off).start().await.unwrap();
    let begun = Instant::now();
    rows(&world.db, "exchange = 'orders.events' AND status = 'Published' AND attempt_count = 0", 1_000, SOON).await;
    println!("1,000 events of the good exchange in {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    rows(&world.db, "exchange = 'audit.events' AND status = 'Pending' AND attempt_count >= 1", 1_000, SOON).await;
    let asked = faults.counts().0 - 1_000;
    println!("the missing exchange was asked {asked} times");
    assert!(asked <= 40, "{asked}");
    world
        .db
        .execute(
            "UPDATE outbox_messages SET backoff_first = 1000, next_attempt_at = now() WHERE exchange = 'audit.events'",
        )
        .await;
    // Beside the retries of a thousand, which close channel after channel.
    let begun = Instant::now();
    for n in 0..50 {
        commit(&world.db, orders(1_000 + n * 20, 1_020 + n * 20)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    rows(&world.db, "exchange = 'orders.events' AND status = 'Published' AND attempt_count = 0", 2_000, SOON).await;
    println!("1,000 more in {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let unknown = world.db.count("outbox_messages", "unknown_count > 0").await;
    assert_eq!(unknown, 0, "no connection was lost: {:?}", errors(&world.db, "unknown_count > 0").await);
    assert_eq!(tally(&take(&wire, "orders", 2_000).await).len(), 2_000);

    tap(&wire, "audit", "audit.events", "#").await;
    rows(&world.db, "status = 'Published'", 3_000, SOON).await;
    runtime.shutdown().await;
}

async fn short_queue(wire: &Wire, queue: &str, length: i32) {
    let arguments: FieldTable = table([
        ("x-max-length", AMQPValue::LongInt(length)),
        ("x-overflow", text("reject-publish")),
        ("x-queue-type", text("quorum")),
    ]);
    let options = lapin::options::QueueDeclareOptions { durable: true, ..Default::default() };
    wire.channel().await.queue_declare(queue.into(), options, arguments).await.expect("a queue");
}

/// R3: a queue that is full nacks what is for its routing key; other keys of the same exchange are not delayed, and nobody spends anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_delays_its_own_routing_key_only() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", ORDER_CREATED).await;
    short_queue(&wire, "full", 10).await;
    wire.bind("full", "orders.events", "order.unwanted").await;
    let to_full = |from: usize, to: usize| (from..to).map(|n| Unwanted { order_id: n.to_string() }.draft());
    commit(&world.db, (0..500).flat_map(|n| to_full(n, n + 1).chain(orders(n, n + 1)))).await;
    let runtime = relay(&world).start().await.unwrap();
    let begun = Instant::now();
    let good = "event_type = 'order.created' AND status = 'Published'";
    rows(&world.db, good, 500, SOON).await;
    // A quorum queue tells its publishers after the fact that it is full: more of them until it does.
    let nacked = "event_type = 'order.unwanted' AND last_error LIKE '%basic.nack%'";
    let mut sent = 500;
    while world.db.count("outbox_messages", nacked).await == 0 {
        assert!(begun.elapsed() < SOON, "the queue is not full");
        commit(&world.db, to_full(sent, sent + 50)).await;
        sent += 50;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    commit(&world.db, to_full(sent, sent + 100)).await;
    sent += 100;
    let begun = Instant::now();
    for n in 0..50 {
        commit(&world.db, orders(500 + n * 10, 510 + n * 10)).await;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    rows(&world.db, good, 1_000, SOON).await;
    println!("500 events beside a full queue in {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let held = world.db.count("outbox_messages", "event_type = 'order.unwanted' AND status = 'Pending'").await;
    assert!(held >= 100, "{held} wait for the full queue");
    assert_eq!(
        world.db.count("outbox_messages", "attempt_count > 0 OR unknown_count > 0").await,
        0,
        "nobody spends anything"
    );
    for error in errors(&world.db, nacked).await {
        assert!(error.contains("\"orders.events\"") && error.contains("\"order.unwanted\""), "{error}");
    }
    assert_eq!(tally(&take(&wire, "orders", 1_000).await).len(), 1_000);

    // Somebody empties it: everything arrives.
    let all = tokio::join!(
        take(&wire, "full", sent),
        rows(&world.db, "status = 'Published'", 1_000 + sent, Duration::from_secs(60))
    )
    .0;
    assert_eq!(tally(&all).len(), sent);
    runtime.shutdown().await;
}

/// R3: a queue whose replicas have no majority answers nothing at all. What is for it waits; other keys of the same exchange are not stopped by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_never_answers_stops_nobody_else() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", "#").await;
    let faults = PublishFaults::to(world.vhost.url(), Rates::default()).await;
    faults.swallow("order.unwanted");
    let lease = (Duration::from_secs(10), Duration::from_secs(3));
    let builder = builder(world.db.url(), faults.url(), []).role(Role::Relay).lease(lease.0, lease.1);
    let runtime = builder.start().await.unwrap();
    commit(&world.db, orders(0, 10)).await;
    rows(&world.db, "status = 'Published'", 10, SOON).await;
    commit(&world.db, (0..200).map(|n| Unwanted { order_id: n.to_string() }.draft())).await;
    let begun = Instant::now();
    let mut sent = 10;
    while begun.elapsed() < Duration::from_secs(25) {
        commit(&world.db, orders(sent, sent + 10)).await;
        sent += 10;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let published = world.db.count("outbox_messages", "status = 'Published'").await;
    let slow = "SELECT (extract(epoch FROM max(coalesce(published_at, now()) - enqueued_at)) * 1000)::bigint FROM outbox_messages WHERE event_type = 'order.created'
                AND enqueued_at > now() - interval '15 seconds'";
    let slowest = world.db.number(slow).await;
    println!("{published} of {sent} published; the slowest of the last 15 s took {slowest} ms");
    assert!(slowest < 3_000, "{slowest} ms");
    assert_eq!(world.db.count("outbox_messages", "attempt_count > 0").await, 0, "nobody spends anything");
    faults.cure();
    rows(&world.db, "status = 'Published'", sent + 200, Duration::from_secs(60)).await;
    runtime.shutdown().await;
}

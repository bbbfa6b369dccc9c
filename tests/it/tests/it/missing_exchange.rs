//! An exchange that is gone, or that may not be written to, holds up its own events only.

use std::time::Duration;

use outbox::{Declare, handlers};
use outbox_it::rabbit_wire::Wire;
use outbox_it::{PublishFaults, Rates, eventually};

use crate::meter::Meter;
use crate::producing::{AuditNoted, Optional, commit, errors, forge, relay, rows, take, tally, tap};
use crate::world::{OrderCreated, World};

const SOON: Duration = Duration::from_secs(20);

async fn taps(wire: &Wire) {
    tap(wire, "orders", "orders.events", "#").await;
    tap(wire, "audit", "audit.events", "#").await;
}

fn orders(from: usize, to: usize) -> impl Iterator<Item = outbox::Draft> {
    (from..to).map(|n| OrderCreated::number(n).draft())
}

fn notes(from: usize, to: usize) -> impl Iterator<Item = outbox::Draft> {
    (from..to).map(|n| AuditNoted { order_id: format!("note-{n}") }.draft())
}

/// Each error has all parts, and is bounded.
fn says(errors: &[String], parts: &[&str]) {
    assert!(!errors.is_empty());
    for error in errors {
        assert!(parts.iter().all(|part| error.contains(part)) && error.len() <= 1_000, "{parts:?} in {error:?}");
    }
}

/// F02: amqp-rs/lapin#246, #245; OpenSDN-io/community#129: publishing to an exchange that is gone hangs for ever.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_deleted_exchange_are_held_and_others_flow() {
    let meter = Meter::install();
    let world = World::new().await;
    let wire = world.wire().await;
    taps(&wire).await;
    let runtime = relay(&world).declare(Declare::Passive).start().await.unwrap();
    commit(&world.db, orders(0, 50).chain(notes(0, 50))).await;
    rows(&world.db, "status = 'Published'", 100, SOON).await;

    wire.delete_exchange("orders.events").await;
    commit(&world.db, orders(50, 150).chain(notes(50, 150))).await;
    rows(&world.db, "status = 'Published' AND exchange = 'audit.events'", 150, SOON).await;
    rows(&world.db, "status = 'Pending' AND attempt_count >= 1", 100, SOON).await;
    let held = errors(&world.db, "status <> 'Published'").await;
    says(&held, &["404 NOT_FOUND", "exchange \"orders.events\"", "routing key \"order.created\""]);
    // Still flowing, beside the retries of the others.
    commit(&world.db, notes(150, 200)).await;
    rows(&world.db, "status = 'Published' AND exchange = 'audit.events'", 200, SOON).await;

    taps(&wire).await;
    rows(&world.db, "status = 'Published'", 350, SOON).await;
    assert_eq!(tally(&take(&wire, "orders", 150).await).len(), 150, "each order is at its queue");
    let taken = take(&wire, "audit", 200).await;
    assert_eq!(tally(&taken).len(), 200, "each note is at its queue");
    // Once, unless its result was unknown: then the same id is published again, and only then.
    let unknown = meter.counter(outbox::telemetry::names::UNKNOWN, "");
    let copies = taken.len() as u64 - 200;
    assert!(copies <= unknown, "{copies} second copies, {unknown} unknown results");
    runtime.shutdown().await;
}

/// F02, with a user who may not write to one exchange.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_forbidden_exchange_are_held_and_others_flow() {
    let mut world = World::new().await;
    let url = world.vhost.limited_user("", "^audit", ".*").await;
    let user = url::Url::parse(&url).unwrap().username().to_owned();
    let wire = world.wire().await;
    taps(&wire).await;
    let runtime = crate::world::builder(world.db.url(), &url, [])
        .role(outbox::Role::Relay)
        .declare(Declare::Off)
        .start()
        .await
        .unwrap();
    commit(&world.db, orders(0, 100).chain(notes(0, 100))).await;
    rows(&world.db, "status = 'Published' AND exchange = 'audit.events'", 100, SOON).await;
    rows(&world.db, "status = 'Pending' AND attempt_count >= 1", 100, SOON).await;
    let held = errors(&world.db, "status <> 'Published'").await;
    says(&held, &["403 ACCESS_REFUSED", "exchange \"orders.events\"", "routing key \"order.created\""]);
    // An event without a subscriber may go; one that we may not send must not.
    commit(&world.db, [Optional { order_id: "optional".into() }.draft()]).await;
    rows(&world.db, "event_type = 'order.optional' AND status = 'Pending' AND attempt_count >= 1", 1, SOON).await;

    world.vhost.set_permissions(&user, "", ".*", ".*").await;
    rows(&world.db, "status = 'Published'", 201, SOON).await;
    assert_eq!(take(&wire, "orders", 101).await.len(), 101, "each order is at its queue, once");
    runtime.shutdown().await;
}

/// F02, F35 (metricq/metricq-python#25, postwait/node-amqp#190: bindings not replayed): with `Declare::On` the exchange comes back, and so
/// do the bindings that went with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_exchange_comes_back_with_its_bindings() {
    let world = World::new().await;
    let runtime = world.runtime(handlers![crate::world::reserve_stock]).start().await.unwrap();
    let wire = world.wire().await;
    world.enqueue(0, 50).await;
    world.settled(50, SOON).await;
    wire.delete_exchange("orders.events").await;
    world.enqueue(50, 150).await;
    world.settled(150, SOON).await;
    eventually(SOON, "all published", async || world.db.count("outbox_messages", "status <> 'Published'").await == 0)
        .await;
    runtime.shutdown().await;
}

/// F02: an exchange that this relay's program does not know is declared when it is first missed.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_of_another_programs_events_is_declared() {
    let world = World::new().await;
    let wire = world.wire().await;
    let runtime = relay(&world).start().await.unwrap();
    commit(&world.db, notes(0, 10)).await;
    eventually(SOON, "the exchange is there", async || wire.has_exchange("audit.events").await).await;
    tap(&wire, "audit", "audit.events", "#").await;
    rows(&world.db, "status = 'Published'", 10, SOON).await;
    assert_eq!(take(&wire, "audit", 10).await.len(), 10);
    runtime.shutdown().await;
}

/// R3: what the broker says of an exchange that is gone is kept whatever its name has in it, and its length is bounded. RabbitMQ writes names of
/// other letters than ASCII into its answer in bytes that are no UTF-8.
#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_a_missing_exchange_may_be_anything() {
    let world = World::new().await;
    let wire = world.wire().await;
    taps(&wire).await;
    let readable = ["\u{1f600}café".to_owned(), "\"\\'".repeat(85), "x".repeat(255)];
    // The broker's text is cut in the middle of a character.
    let unreadable = ["é".repeat(127), "文".repeat(85)];
    let names: Vec<&String> = readable.iter().chain(&unreadable).collect();
    let each = 20;
    for (n, exchange) in names.iter().enumerate() {
        let exchange = exchange.replace('\'', "''");
        for m in 0..each {
            let set = format!("exchange = '{exchange}', routing_key = repeat('\"', 255)");
            forge(&world.db, &format!("odd-{n}-{m}"), &set).await;
        }
    }
    let faults = PublishFaults::to(world.vhost.url(), Rates::default()).await;
    let builder = crate::world::builder(world.db.url(), faults.url(), []);
    let runtime = builder.role(outbox::Role::Relay).declare(Declare::Off).start().await.unwrap();
    let held = async |condition: String| {
        rows(&world.db, &format!("{condition} AND status = 'Pending' AND last_error IS NOT NULL"), each, SOON).await;
        let held = errors(&world.db, &condition).await;
        println!("{held:?}");
        held
    };
    for (n, exchange) in names.iter().enumerate() {
        let held = held(format!("event_id LIKE 'odd-{n}-%'")).await;
        if n < readable.len() {
            says(&held, &["404 NOT_FOUND", &format!("exchange {exchange:?}"), "routing key"]);
        } else {
            says(&held, &["cannot be read", &format!("exchange {exchange:?}"), "routing key"]);
        }
    }
    let begun = std::time::Instant::now();
    let before = faults.connections();
    for n in 0..50 {
        commit(&world.db, orders(n * 10, n * 10 + 10)).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    rows(&world.db, "event_id LIKE '0%' AND status = 'Published' AND attempt_count = 0", 500, Duration::from_secs(5))
        .await;
    let made = faults.connections() - before;
    println!("{made} connections in {:?}", begun.elapsed());
    assert!(made < 40, "{made} connections");
    rows(&world.db, "event_id LIKE 'odd-%' AND attempt_count >= 2", readable.len() * each, SOON).await;
    let spent = format!("exchange IN ('{}', '{}') AND attempt_count > 0", unreadable[0], unreadable[1]);
    assert_eq!(world.db.count("outbox_messages", &spent).await, 0, "nobody knows whose it is: nothing is spent");
    for exchange in &unreadable {
        wire.topic_exchange(exchange).await;
    }
    let routed = "status = 'Pending' AND last_error LIKE '312%'";
    rows(&world.db, routed, unreadable.len() * each, Duration::from_secs(60)).await;
    runtime.shutdown().await;
}

//! F33: a queue that dies while it is published to.

use std::time::Duration;

use outbox::telemetry::names;
use outbox_it::{Logs, eventually};

use crate::meter::Meter;
use crate::producing::{commit, relay, rows, take, tally, tap};
use crate::world::{OrderCreated, World};

const SOON: Duration = Duration::from_secs(60);

/// F33: rabbitmq/rabbitmq-server#1893 (confirmed although not enqueued), #15333 (nacks while a quorum queue is deleted): one of two bound queues is
/// deleted and created in a loop under load. Nothing is lost for the other one, nothing is spent, and the relay does not come to a halt.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_dies_again_and_again_costs_the_other_queue_nothing() {
    let logs = Logs::capture();
    let meter = Meter::install();
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "survivor", "orders.events", "#").await;
    tap(&wire, "mortal", "orders.events", "#").await;
    let runtime = relay(&world)
        .relay_limits(50, 16 << 20)
        .lease(Duration::from_secs(10), Duration::from_secs(3))
        .start()
        .await
        .unwrap();
    let mut deaths = 0;
    let load = async {
        let mut sent = 0;
        for _ in 0..120 {
            commit(&world.db, (sent..sent + 50).map(|n| OrderCreated::number(n).draft())).await;
            sent += 50;
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        sent
    };
    let killer = async {
        loop {
            wire.delete_queue("mortal").await;
            deaths += 1;
            tokio::time::sleep(Duration::from_millis(15)).await;
            tap(&wire, "mortal", "orders.events", "#").await;
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    };
    let sent = tokio::select! {
        sent = load => sent,
        () = killer => unreachable!(),
    };
    rows(&world.db, "status = 'Published'", sent, SOON).await;
    let taken = take(&wire, "survivor", sent).await;
    assert_eq!(tally(&taken).len(), sent, "each event is at the surviving queue");
    let again = meter.counter(names::UNKNOWN, "") + meter.counter(names::NACKED, "");
    let replaced = logs.with(&["does not answer on it"]).len();
    println!(
        "{sent} events, {deaths} deaths, {replaced} connections that did not answer, {} copies, {again} unknown results or nacks",
        taken.len() - sent
    );
    assert!(taken.len() - sent <= usize::try_from(again).unwrap(), "a copy without a reason");
    assert!(deaths > 20, "{deaths}");
    assert_eq!(world.db.count("outbox_messages", "attempt_count > 0").await, 0, "nobody's attempt is spent");
    // No wedge: what comes afterwards flows at once.
    commit(&world.db, [OrderCreated::number(sent).draft()]).await;
    eventually(Duration::from_secs(5), "the next one", async || {
        world.db.count("outbox_messages", "status <> 'Published'").await == 0
    })
    .await;
    runtime.shutdown().await;
}

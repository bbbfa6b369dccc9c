//! C7: what fell into the broker's delivery limit.

use std::time::Duration;

use lapin::options::BasicNackOptions;
use outbox_it::{Wire, eventually};

use crate::parked_retry::copy_of;
use crate::scripted::{Act, Script, effects_of, enqueue_as, inbox_state, parked, quick, runtime};
use crate::world::World;

const SOON: Duration = Duration::from_secs(30);

/// Refuses every message of a queue until the broker gives up on it.
pub async fn exhaust(wire: &Wire, queue: &str, dead: u32) {
    for _ in 0..60 {
        while let Some((_channel, message)) = wire.hold(queue).await {
            message.delivery.nack(BasicNackOptions { requeue: true, ..Default::default() }).await.unwrap();
        }
        if wire.ready(&format!("{queue}.dead")).await == Some(dead) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the broker does not give up: {:?} in the dead-letter queue", wire.ready(&format!("{queue}.dead")).await);
}

/// C7, C8, S7: a message over the limit is moved to `parked_messages` and run alone, once; what cannot be run waits there for a person; the
/// dead-letter queue is empty afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn what_exceeded_the_delivery_limit_is_run_alone_once_and_the_rest_waits_for_a_person() {
    let world = World::new().await;
    let script = Script::new(|order, _| Act::sleep(if order.ends_with('9') { 700 } else { 50 }));
    let first = runtime(&world, &script, quick()).start().await.unwrap();
    enqueue_as(&world.db, 1, "first").await;
    world.settled(1, SOON).await;
    first.shutdown().await;

    let wire = world.wire().await;
    let old = |order, id| {
        let (properties, body) = copy_of(order, id);
        let headers = outbox_it::rabbit_wire::table([(
            "outbox-enqueued-at",
            outbox_it::rabbit_wire::text("2020-01-01T00:00:00Z"),
        )]);
        (properties.with_headers(headers), body)
    };
    let (anonymous, _) = copy_of(2, "");
    let body = br#"{"order_id":"nobody","quantity":1}"#.to_vec();
    world.db.execute("INSERT INTO inbox_floors (consumer, floor) VALUES ('scripted', '2025-01-01') ON CONFLICT (consumer) DO UPDATE SET floor = '2025-01-01'").await;
    let messages = [
        copy_of(9, "limit"),
        copy_of(1, "first"),
        (copy_of(5, "first").0, copy_of(5, "first").1),
        (anonymous.with_message_id("".into()), body),
        old(6, "too-old"),
    ];
    wire.publish_all("", "scripted", messages).await;
    exhaust(&wire, "scripted", 5).await;

    let second = runtime(&world, &script, quick()).start().await.unwrap();
    world.enqueue(20, 60).await;
    world.settled(42, SOON).await;
    eventually(SOON, "the dead-letter queue is drained", async || wire.ready("scripted.dead").await == Some(0)).await;
    let empty = async || world.vhost.queues(&["name", "messages"]).await.iter().all(|queue| queue["messages"] == 0);
    eventually(SOON, "all is acked", empty).await;
    assert_eq!(inbox_state(&world.db, "limit").await.as_deref(), Some("Processed"));
    assert_eq!((effects_of(&world.db, 9).await, effects_of(&world.db, 1).await), (1, 1));
    let alone = script.runs_of(9);
    assert_eq!((alone.len(), alone[0].attempt), (1, 1));
    let beside = script.runs().into_iter().filter(|seen| {
        let (start, end) = (alone[0].at, alone[0].at + Duration::from_millis(700));
        seen.event_id != "limit" && seen.at + Duration::from_millis(50) > start && seen.at < end
    });
    assert_eq!(beside.count(), 0, "nothing runs beside it");
    let mut rows: Vec<_> =
        parked(&world.db).await.into_iter().map(|row| (row.reason, row.status, row.event_id)).collect();
    rows.sort();
    let dead = |reason: &str, id: Option<&str>| (reason.to_owned(), "Dead".to_owned(), id.map(str::to_owned));
    assert_eq!(
        rows,
        [dead("id reused", Some("first")), dead("no id", None), dead("older than the dedup window", Some("too-old"))]
    );
    assert_eq!((script.runs_of(5).len(), script.runs_of(6).len()), (0, 0));
    second.shutdown().await;
}

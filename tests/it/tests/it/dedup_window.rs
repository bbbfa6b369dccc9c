//! S7, F61: the dedup window.

use std::time::Duration;

use outbox::telemetry::names;
use outbox_it::eventually;
use outbox_it::rabbit_wire::{table, text};

use crate::meter::Meter;
use crate::parked_retry::copy_of;
use crate::scripted::{Script, effects_of, inbox_state, parked, quick, runtime};
use crate::world::World;

const SOON: Duration = Duration::from_secs(20);

fn old_copy(order: usize, event_id: &str, at: &str) -> (lapin::BasicProperties, Vec<u8>) {
    let (properties, body) = copy_of(order, event_id);
    (properties.with_headers(table([("outbox-enqueued-at", text(at))])), body)
}

/// S7, F61: below the floor a message without a record is parked for a person, not run; one with a record is acked as a copy; above it all is as ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_from_below_the_floor_is_never_run_on_its_own() {
    let meter = Meter::install();
    let world = World::new().await;
    let script = Script::done();
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    let wire = world.wire().await;
    eventually(SOON, "the queue is there", async || wire.ready("scripted").await.is_some()).await;
    wire.publish_all("", "scripted", [old_copy(1, "known", "2020-01-01T00:00:00Z")]).await;
    eventually(SOON, "it is handled", async || effects_of(&world.db, 1).await == 1).await;
    world.db.execute("INSERT INTO inbox_floors (consumer, floor) VALUES ('scripted', '2021-01-01') ON CONFLICT (consumer) DO UPDATE SET floor = '2021-01-01'").await;
    let before = meter.counter(names::DUPLICATES, "consumer=scripted");
    let messages = [
        old_copy(1, "known", "2020-01-01T00:00:00Z"),
        old_copy(2, "unknown", "2020-12-31T23:59:59.999Z"),
        old_copy(3, "above", "2021-01-01T00:00:00.001Z"),
        copy_of(4, "foreign"),
    ];
    wire.publish_all("", "scripted", messages).await;
    world.settled(3, SOON).await;
    eventually(SOON, "one is parked", async || parked(&world.db).await.len() == 1).await;
    let row = parked(&world.db).await.remove(0);
    assert_eq!(
        (row.event_id.as_deref(), row.status.as_str(), row.reason.as_str()),
        (Some("unknown"), "Dead", "older than the dedup window")
    );
    assert_eq!(row.body, copy_of(2, "unknown").1);
    assert_eq!(inbox_state(&world.db, "unknown").await, None);
    assert_eq!((script.runs_of(2).len(), script.runs().len()), (0, 3));
    assert_eq!(meter.counter(names::DUPLICATES, "consumer=scripted"), before + 1);
    runtime.shutdown().await;
}

/// S7: rows under a floor that was announced long ago are deleted, those that are not decided stay; the next floor is announced and nothing is deleted
/// under it before its grace; an old backlog holds the floor.
#[tokio::test(flavor = "multi_thread")]
async fn the_floor_advances_step_by_step_and_not_past_an_old_backlog() {
    let (moving, held) = tokio::join!(World::new(), World::new());
    for world in [&moving, &held] {
        world.db.execute(
            "INSERT INTO inbox_messages (consumer, event_id, state, enqueued_at, event_version, fingerprint)
             SELECT c, state || age, state, now() - age * interval '1 hour', 1, '\\x00'
             FROM unnest(ARRAY['Processed', 'Retrying', 'Dead']) AS state, unnest(ARRAY[1, 5, 50]) AS age, unnest(ARRAY['scripted', 'other']) AS c;
             INSERT INTO inbox_floors (consumer, floor, announced_at) VALUES ('scripted', now() - interval '24 hours', now() - interval '11 minutes')",
        ).await;
    }
    let start = async |world: &World| {
        let builder = runtime(world, &Script::done(), quick()).dedup_window(Duration::from_secs(3 * 3600));
        builder.start().await.unwrap()
    };
    let (one, two) = (start(&moving).await, start(&held).await);
    let ids = async |world: &World| -> Vec<String> {
        let all = sqlx::query_scalar(
            "SELECT event_id FROM inbox_messages WHERE consumer = 'scripted' AND fingerprint = '\\x00' ORDER BY 1",
        );
        all.fetch_all(world.db.pool()).await.unwrap()
    };
    let after = ["Dead1", "Dead5", "Dead50", "Processed1", "Processed5", "Retrying1", "Retrying5", "Retrying50"];
    eventually(SOON, "what is old and handled is deleted", async || ids(&moving).await == after).await;
    assert_eq!(moving.db.count("inbox_messages", "consumer = 'other'").await, 9, "another consumer's rows stay");
    // A message from before the next floor arrives at the other one.
    let hours_ago: String = sqlx::query_scalar(
        "SELECT to_char((now() - interval '10 hours') AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
    )
    .fetch_one(held.db.pool())
    .await
    .unwrap();
    let wire = held.wire().await;
    eventually(SOON, "the queue is there", async || wire.ready("scripted").await.is_some()).await;
    wire.publish_all("", "scripted", [old_copy(1, "late", &hours_ago)]).await;
    held.settled(1, SOON).await;
    let floor_age = "SELECT extract(epoch FROM now() - floor)::bigint FROM inbox_floors WHERE consumer = 'scripted'";
    let moved = async || (10_700..11_000).contains(&moving.db.number(floor_age).await);
    eventually(Duration::from_secs(75), "the floor is at the window", moved).await;
    assert!(held.db.number(floor_age).await > 80_000, "an old backlog holds the floor");
    assert_eq!(held.db.count("inbox_floors", "held_until > now() + interval '50 minutes'").await, 1);
    assert_eq!(ids(&moving).await, after, "nothing is deleted before the grace has passed");
    one.shutdown().await;
    two.shutdown().await;
    // As if the grace had passed.
    moving.db.execute("UPDATE inbox_floors SET announced_at = now() - interval '11 minutes'").await;
    let one = start(&moving).await;
    let after = ["Dead1", "Dead5", "Dead50", "Processed1", "Retrying1", "Retrying5", "Retrying50"];
    eventually(SOON, "what is under the new floor is deleted", async || ids(&moving).await == after).await;
    one.shutdown().await;
}

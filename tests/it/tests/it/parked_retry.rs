//! C2, C3, promise 6: parked messages and their re-runs.

use std::time::Duration;

use lapin::BasicProperties;
use outbox::telemetry::names;
use outbox_it::{Logs, eventually};

use crate::meter::Meter;
use crate::scripted::{Act, Script, effects_of, enqueue_as, inbox_state, parked, quick, runtime};
use crate::world::{OrderCreated, World};

const SOON: Duration = Duration::from_secs(20);

/// A message as another producer, or the broker a second time, would bring it.
pub fn copy_of(order: usize, event_id: &str) -> (BasicProperties, Vec<u8>) {
    let body = serde_json::json!({
        "eventId": event_id, "eventType": "order.created", "occurredAt": "2026-01-01T00:00:00Z", "eventVersion": 1,
        "order_id": OrderCreated::number(order).order_id, "quantity": 1,
    });
    let properties = BasicProperties::default()
        .with_message_id(event_id.into())
        .with_type("order.created".into())
        .with_content_type("application/json".into())
        .with_delivery_mode(2);
    (properties, body.to_string().into_bytes())
}

/// C2: while it waits for another run, after it was handled, and after it was given up, a copy is acked unrun and counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_retrying_handled_or_dead_message_is_acked_unrun_and_counted() {
    let (meter, logs) = (Meter::install(), Logs::capture());
    let world = World::new().await;
    let script = Script::new(|order, _| match &order[11..] {
        "1" => Act::Done,
        "2" => Act::Return(outbox::Outcome::RetryAfter(Duration::from_secs(3600))),
        _ => Act::FailDead("no such article"),
    });
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    for (order, event_id, state) in [(1, "handled", "Processed"), (2, "waits", "Retrying"), (3, "given-up", "Dead")] {
        enqueue_as(&world.db, order, event_id).await;
        let known = async || inbox_state(&world.db, event_id).await.as_deref() == Some(state);
        eventually(SOON, "the first one is decided", known).await;
    }
    let before = meter.counter(names::DUPLICATES, "consumer=scripted");
    let wire = world.wire().await;
    for (order, event_id) in [(1, "handled"), (2, "waits"), (3, "given-up")] {
        wire.publish_all("", "scripted", [copy_of(order, event_id), copy_of(order, event_id)]).await;
    }
    let counted = async || meter.counter(names::DUPLICATES, "consumer=scripted") == before + 6;
    eventually(SOON, "six copies are counted", counted).await;
    let empty = async || world.vhost.queues(&["name", "messages"]).await.iter().all(|queue| queue["messages"] == 0);
    eventually(SOON, "they are acked", empty).await;
    assert_eq!(script.runs().len(), 3, "none was run");
    assert_eq!(parked(&world.db).await.len(), 2, "none was parked again");
    for disposition in ["Processed", "Retrying", "Dead"] {
        logs.assert_present(&["decided before; acked unrun", disposition]);
    }
    runtime.shutdown().await;
}

/// C2: a re-run whose claim was lost to somebody else abandons before the handler runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_run_whose_claim_was_lost_is_abandoned() {
    let meter = Meter::install();
    let world = World::new().await;
    let script = Script::new(|order, run| match (&order[11..], run) {
        ("1", 1) => Act::Return(outbox::Outcome::RetryAfter(Duration::from_millis(300))),
        _ => Act::Done,
    });
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    enqueue_as(&world.db, 1, "stolen").await;
    eventually(SOON, "it is parked", async || parked(&world.db).await.len() == 1).await;
    // Whoever claims it finds another name on the row.
    world
        .db
        .execute(
            "CREATE FUNCTION steal() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF NEW.locked_by IS NOT NULL AND OLD.locked_by IS NULL THEN NEW.locked_by := 'somebody-else'; END IF; RETURN NEW; END $$;
             CREATE TRIGGER steal BEFORE UPDATE ON parked_messages FOR EACH ROW EXECUTE FUNCTION steal()",
        )
        .await;
    let abandoned = async || meter.counter(names::ABANDONED, "consumer=scripted") >= 1;
    eventually(SOON, "the run is abandoned", abandoned).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let row = parked(&world.db).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts, row.locked_by.as_deref()), ("Retrying", 2, Some("somebody-else")));
    assert_eq!((script.runs().len(), effects_of(&world.db, 1).await), (1, 0));
    assert_eq!(inbox_state(&world.db, "stolen").await.as_deref(), Some("Retrying"));
    // When that somebody is gone, it is run once.
    world.db.execute("DROP TRIGGER steal ON parked_messages; UPDATE parked_messages SET locked_until = now()").await;
    world.settled(1, SOON).await;
    assert_eq!((script.runs().len(), script.runs()[1].attempt), (2, 3), "each claim is an attempt");
    runtime.shutdown().await;
}

/// C3: a parked message that must run alone spends no attempt while it waits for the others to end, nor by a shutdown meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_message_that_waits_to_run_alone_spends_no_attempt() {
    let world = World::new().await;
    let script = Script::new(|order, run| match (&order[11..], run) {
        ("1", 1) => Act::Return(outbox::Outcome::RetryAfter(Duration::from_millis(1500))),
        ("2", 1) => Act::sleep(6_000),
        _ => Act::Done,
    });
    let first = runtime(&world, &script, quick()).start().await.unwrap();
    enqueue_as(&world.db, 1, "alone").await;
    eventually(SOON, "it is parked", async || parked(&world.db).await.len() == 1).await;
    world.db.execute("UPDATE parked_messages SET isolated = true").await;
    enqueue_as(&world.db, 2, "long").await;
    tokio::time::sleep(Duration::from_millis(3000)).await;
    first.shutdown().await;
    let row = parked(&world.db).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts, row.locked_by), ("Retrying", 1, None));
    assert_eq!(script.runs_of(1).len(), 1);
    assert_eq!(effects_of(&world.db, 2).await, 1, "the long one was waited for");

    let second = runtime(&world, &script, quick()).start().await.unwrap();
    world.settled(2, SOON).await;
    assert_eq!(script.runs_of(1)[1].attempt, 2);
    second.shutdown().await;
}

/// C3: a runtime that stops claims nothing any more: a claim after the stop would spend an attempt for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_parked_is_claimed_after_the_stop() {
    let world = World::new().await;
    let script = Script::new(|order, run| match (&order[11..], run) {
        ("1", 1) => Act::Return(outbox::Outcome::RetryAfter(Duration::from_millis(2000))),
        ("2", _) => Act::sleep(4_000),
        _ => Act::Done,
    });
    let options = quick().concurrency(1).prefetch(1);
    let first = runtime(&world, &script, options.clone()).start().await.unwrap();
    enqueue_as(&world.db, 1, "due-at-the-stop").await;
    eventually(SOON, "it is parked", async || parked(&world.db).await.len() == 1).await;
    enqueue_as(&world.db, 2, "long").await;
    eventually(SOON, "the long one runs", async || script.runs_of(2).len() == 1).await;
    // The parked one becomes due while the only place is taken; the stop comes before the place is free.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    first.shutdown().await;
    assert_eq!(script.runs_of(1).len(), 1, "it is not run after the stop");
    assert_eq!(parked(&world.db).await[0].attempts, 1);
    let second = runtime(&world, &script, options).start().await.unwrap();
    world.settled(2, SOON).await;
    second.shutdown().await;
}

/// C3: a consumer that does not know the event lets it wait; that is no attempt, however often it looks.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_message_of_another_build_waits_without_spending_attempts() {
    let world = World::new().await;
    let script = Script::new(|_, run| {
        if run == 1 { Act::Return(outbox::Outcome::RetryAfter(Duration::from_secs(1))) } else { Act::Done }
    });
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    enqueue_as(&world.db, 1, "newer").await;
    eventually(SOON, "it is parked", async || parked(&world.db).await.len() == 1).await;
    world.db.execute("UPDATE parked_messages SET properties = replace(properties::text, '\"outbox-event-version\":1', '\"outbox-event-version\":7')::json").await;
    for _ in 0..4 {
        let waits = async || {
            world
                .db
                .count("parked_messages", "locked_by IS NULL AND next_attempt_at > now() + interval '20 seconds'")
                .await
                == 1
        };
        eventually(SOON, "it waits for another build", waits).await;
        assert_eq!(parked(&world.db).await[0].attempts, 1);
        world.db.execute("UPDATE parked_messages SET next_attempt_at = now()").await;
    }
    world.db.execute("UPDATE parked_messages SET next_attempt_at = now(), properties = replace(properties::text, '\"outbox-event-version\":7', '\"outbox-event-version\":1')::json").await;
    world.settled(1, SOON).await;
    runtime.shutdown().await;
}

//! What an operator does, and is told, beside running relays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox::admin::{EventStatus, Filter, RowOutcome, Selection};
use outbox::{Alert, Enqueue, Migrations, Retention, Role};
use outbox_it::eventually;

use super::place::{SOON, idle};
use crate::producing::Urgent;
use crate::scripted::{Act, Script, quick};
use crate::world::OrderCreated;

/// What the callback was told, and on which thread.
#[derive(Clone, Default)]
struct Alerts(Arc<Mutex<Vec<(String, Alert)>>>);

impl Alerts {
    fn note(&self, alert: Alert) {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.0.lock().unwrap().push((thread, alert));
    }

    fn count(&self, kind: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(_, alert)| alert.kind() == kind).count()
    }
}

matrix! {
    /// An operator's action and a relay reach for the same event a thousand times: what was discarded or failed is not published, what was published is
    /// not reported as discarded or failed, and nothing is lost or doubled.
    async fn an_action_never_races_a_relay(place) {
        const EVENTS: usize = 1_000;
        let admin = place.admin();
        let runtime = place.start([S::handlers().stock]).await;
        eventually(SOON, "ready", async || runtime.health().ready).await;
        let (mut discarded, mut failed, mut others) = (Vec::new(), Vec::new(), 0);
        for batch in 0..EVENTS / 20 {
            let numbers = batch * 20..batch * 20 + 20;
            let drafts = numbers.clone().map(|n| outbox::Draft::new(&OrderCreated::number(n), Enqueue::new().event_id(format!("race-{n}"))));
            place.commit(drafts).await;
            let acts = numbers.map(|n| {
                let admin = &admin;
                async move {
                    tokio::time::sleep(Duration::from_millis((n * 7919 % 23) as u64)).await;
                    let id = format!("race-{n}");
                    let report = match n % 3 {
                        0 => admin.discard(id.as_str(), "a race").await,
                        1 => admin.fail(id.as_str(), "a race").await,
                        _ => admin.retry_now(id.as_str()).await,
                    };
                    (n, report.expect("the action").rows.remove(0).outcome)
                }
            });
            for (n, outcome) in futures_util::future::join_all(acts).await {
                match (outcome, n % 3) {
                    (RowOutcome::Done, 0) => discarded.push(n),
                    (RowOutcome::Done, 1) => failed.push(n),
                    (RowOutcome::Done | RowOutcome::Busy { .. } | RowOutcome::WrongStatus { status: EventStatus::Published, .. }, _) => others += 1,
                    (other, _) => panic!("{n}: {other:?}"),
                }
            }
        }
        println!("{} discarded, {} failed, {others} others", discarded.len(), failed.len());
        assert!(!discarded.is_empty() && !failed.is_empty() && others > EVENTS / 3, "both sides win");
        place.settled(EVENTS - discarded.len() - failed.len()).await;
        idle(&runtime).await;
        for n in discarded.iter().chain(&failed) {
            assert_eq!(place.effects_of(*n).await, 0, "{n} was published");
        }
        assert_eq!(place.count("outbox_messages", "status = 'Failed'").await, failed.len());
        assert_eq!(place.count("outbox_messages", "1 = 1").await, EVENTS - discarded.len());
        // What an operator failed goes out when he says otherwise.
        let again = admin.retry_now(Filter::new().error_contains("failed by an operator: a race")).await.unwrap();
        assert_eq!(again.done(), failed.len());
        place.settled(EVENTS - discarded.len()).await;
        runtime.shutdown().await;
    }

    /// Published events are published again under their ids: who has handled them does not do it twice, and who is new does it once.
    async fn a_replay_reaches_who_is_new_and_nobody_twice(place) {
        let admin = place.admin();
        let runtime = place.start([S::handlers().stock]).await;
        place.enqueue(0, 30).await;
        place.settled(30).await;
        place.rows_become("outbox_messages", "status = 'Published'", 30).await;
        runtime.shutdown().await;
        let runtime = place.start([S::handlers().stock, S::handlers().mail]).await;
        eventually(SOON, "ready", async || runtime.health().ready).await;
        let created = Filter::new().status(EventStatus::Published).event_type("order.created");
        let mut after = None;
        let mut replayed = 0;
        for _ in 0..3 {
            let selection = Selection::of(created.clone()).limit(10);
            let selection = match after.take() {
                Some(cursor) => selection.after(cursor),
                None => selection,
            };
            let report = admin.replay(selection).await.unwrap();
            replayed += report.done();
            after = report.next;
        }
        assert_eq!(replayed, 30);
        place.rows_become("effects", "consumer = 'matrix-mail'", 30).await;
        idle(&runtime).await;
        place.no_doubles().await;
        assert_eq!(place.count("effects", "1 = 1").await, 60);
        assert_eq!(place.count("outbox_messages", "status = 'Published' AND attempt_count = 0").await, 30);
        runtime.shutdown().await;
    }

    /// Held once, Failed once, Dead once: each is told once, on the service's own threads.
    async fn what_a_person_must_act_on_is_told_once(place) {
        let alerts = Alerts::default();
        let script = Script::new(|order, _| if order.ends_with('1') { Act::FailDead("cannot be cured") } else { Act::Done });
        place.commit([Urgent { order_id: "u".into() }.draft()]).await;
        place.execute("UPDATE outbox_messages SET max_attempts = 3").await;
        let noted = alerts.clone();
        let builder = place.scripted(&script, quick()).on_alert(move |alert| {
            let noted = noted.clone();
            async move { noted.note(alert) }
        });
        let runtime = builder.start().await.unwrap();
        place.rows_become("outbox_messages", "status = 'Failed'", 1).await;
        place.enqueue(0, 3).await;
        place.rows_become("parked_messages", "status = 'Dead'", 1).await;
        eventually(SOON, "the alerts", async || alerts.count("message_dead") + alerts.count("event_failed") == 2).await;
        runtime.shutdown().await;
        assert_eq!((alerts.count("event_held"), alerts.count("event_failed"), alerts.count("message_dead")), (1, 1, 1));
        let told = alerts.0.lock().unwrap();
        for (thread, alert) in told.iter() {
            assert!(!thread.contains("outbox-engine"), "{thread}");
            match alert {
                Alert::EventFailed { exchange, routing_key, attempts, error, event_type, .. } => {
                    assert!(exchange.ends_with("orders.events") && error.contains("order.urgent"), "{alert:?}");
                    assert_eq!((routing_key.as_str(), event_type.as_str(), *attempts), ("order.urgent", "order.urgent", 3));
                }
                Alert::EventHeld { routing_key, .. } => assert_eq!(routing_key, "order.urgent"),
                Alert::MessageDead { consumer, event_id, error, .. } => {
                    assert_eq!(consumer, "matrix-scripted");
                    assert!(event_id.is_some() && error.as_deref().is_some_and(|error| error.contains("cannot be cured")), "{alert:?}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// A callback that hangs or panics delays neither events nor the shutdown.
    async fn a_callback_that_hangs_or_panics_stops_nothing(place) {
        let (calls, script) = (Arc::new(Mutex::new(0)), Script::new(|order, _| if order < "order-000005" { Act::FailDead("no") } else { Act::Done }));
        let counted = Arc::clone(&calls);
        let builder = place.scripted(&script, quick()).shutdown_timeout(Duration::from_secs(5)).on_alert(move |alert| {
            let call = { let mut calls = counted.lock().unwrap(); *calls += 1; *calls };
            assert!(call != 1, "the first call panics before its first await: {alert}");
            async move {
                match call {
                    2 => panic!("a callback that panics"),
                    3 => Err("a callback that fails"),
                    _ => std::future::pending().await,
                }
            }
        });
        let runtime = builder.start().await.unwrap();
        place.enqueue(0, 50).await;
        place.rows_become("parked_messages", "status = 'Dead'", 5).await;
        place.settled(45).await;
        eventually(SOON, "the callback was called again after each fault", async || *calls.lock().unwrap() == 4).await;
        assert!(runtime.health().ready, "{}", runtime.health());
        let begun = std::time::Instant::now();
        runtime.shutdown().await;
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    /// S5: published rows move to a table after their time, whole and once; a table that is missing is a clear error where nobody may create it.
    async fn published_rows_move_to_an_archive(place) {
        place.enqueue(0, 8).await;
        let old = S::in_seconds(-7200);
        place
            .execute(&format!(
                "UPDATE outbox_messages SET status = 'Published', published_at = {old} WHERE aggregate_id < 'order-000003';
                 UPDATE outbox_messages SET status = 'Published', published_at = {} WHERE aggregate_id = 'order-000003';
                 UPDATE outbox_messages SET next_attempt_at = {} WHERE status = 'Pending'",
                S::in_seconds(-60),
                S::in_seconds(3600)
            ))
            .await;
        let before = place.texts("SELECT event_id || CAST(payload AS text) FROM outbox_messages ORDER BY event_id").await;
        let relay = || {
            let archive = Retention::archive("kept_events").after(Duration::from_secs(3600));
            place.runtime([]).role(Role::Relay).fail_fast(true).retention(archive)
        };
        let refused = relay().migrations(Migrations::Check).start().await.unwrap_err().to_string();
        assert!(refused.contains("retention") && refused.contains("no table kept_events"), "{refused}");
        let runtime = relay().migrations(Migrations::Run).start().await.unwrap();
        place.rows_become("kept_events", "archived_at IS NOT NULL", 3).await;
        runtime.shutdown().await;
        // The second start finds it.
        relay().migrations(Migrations::Check).start().await.unwrap().shutdown().await;
        assert_eq!(place.count("outbox_messages", "1 = 1").await, 5);
        let after = place
            .texts(
                "SELECT row FROM (SELECT event_id, event_id || CAST(payload AS text) AS row FROM outbox_messages
                 UNION ALL SELECT event_id, event_id || CAST(payload AS text) FROM kept_events) AS both_tables ORDER BY event_id",
            )
            .await;
        assert_eq!(before, after, "each is in one of the two, as it was");
        place.execute("ALTER TABLE kept_events RENAME COLUMN payload TO body").await;
        let refused = relay().migrations(Migrations::Run).start().await.unwrap_err().to_string();
        assert!(refused.contains("kept_events lacks the columns payload"), "{refused}");
        let refused = place.runtime([]).role(Role::Relay).retention(Retention::archive("outbox_messages")).start().await.unwrap_err().to_string();
        assert!(refused.contains("retention") && refused.contains("table of outbox"), "{refused}");
    }
}

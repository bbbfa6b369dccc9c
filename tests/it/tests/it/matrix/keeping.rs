//! What a runtime tells of itself, and what it keeps.

use std::time::Duration;

use outbox::{Migrations, Outcome, Role};
use outbox_it::eventually;

use super::handlers::{Ledger, Moved};
use super::place::{SOON, idle};
use crate::producing::Unwanted;
use crate::scripted::{Act, Script, quick};

matrix! {
    /// S5: published rows are deleted after their time; what is younger or not published stays.
    async fn published_rows_are_kept_for_their_time_and_no_longer(place) {
        place.enqueue(0, 8).await;
        let set = async |ids: &str, set: String| {
            place.execute(&format!("UPDATE outbox_messages SET {set} WHERE aggregate_id IN ({ids})")).await;
        };
        let published = |seconds| format!("status = 'Published', published_at = {}", S::in_seconds(seconds));
        set("'order-000000', 'order-000001', 'order-000002'", published(-7200)).await;
        set("'order-000003'", published(-60)).await;
        set("'order-000004'", "status = 'Failed'".into()).await;
        let old = S::in_seconds(-7200);
        set("'order-000005'", format!("enqueued_at = {old}, next_attempt_at = {}", S::in_seconds(3600))).await;
        set(
            "'order-000006', 'order-000007'",
            format!("enqueued_at = {old}, occurred_at = {old}, next_attempt_at = {}", S::in_seconds(3600)),
        )
        .await;
        let runtime =
            place.runtime([]).role(Role::Relay).retention(outbox::Retention::keep(Duration::from_secs(3600))).start().await.unwrap();
        place.rows_become("outbox_messages", "aggregate_id < 'order-000003'", 0).await;
        runtime.shutdown().await;
        let rest = place
            .texts("SELECT substr(aggregate_id, 12) || ' ' || status FROM outbox_messages ORDER BY aggregate_id")
            .await;
        assert_eq!(rest, ["3 Published", "4 Failed", "5 Pending", "6 Pending", "7 Pending"]);
    }

    /// S5: with `delete` nothing of a published event stays, and everybody has handled it once all the same; what is not published stays.
    async fn a_published_row_is_deleted_at_once_where_that_is_asked_for(place) {
        let ledger = Ledger::default();
        let handlers = [S::handlers().stock, S::handlers().mail, S::handlers().moved];
        let builder = place.runtime(handlers).state(ledger.clone()).retention(outbox::Retention::delete());
        place.commit((1..=20).map(|step| Moved { account: "a".into(), step }.draft())).await;
        place.commit([Unwanted { order_id: "held".into() }.draft()]).await;
        let runtime = builder.start().await.unwrap();
        place.enqueue(0, 60).await;
        place.rows_become("effects", "1 = 1", 140).await;
        place.rows_become("outbox_messages", "1 = 1", 1).await;
        assert_eq!(place.texts("SELECT event_type || ' ' || status FROM outbox_messages WHERE attempt_count > 0").await, ["order.unwanted Pending"]);
        assert_eq!(ledger.of("a"), (1..=20).collect::<Vec<_>>());
        place.no_doubles().await;
        // A number is never given twice, although the rows are gone.
        place.commit([Moved { account: "a".into(), step: 21 }.draft()]).await;
        eventually(SOON, "the next one", async || ledger.of("a").len() == 21).await;
        assert_eq!(place.number("SELECT last_sequence FROM outbox_sequences").await, 21);
        runtime.shutdown().await;
    }

    /// `idle()` is true only when nothing waits anywhere; `health()` names the parts.
    async fn idle_and_health_tell_the_truth(place) {
        let script = Script::new(|order, run| match (order, run) {
            ("order-000001", 1) => Act::Return(Outcome::RetryAfter(Duration::from_millis(1000))),
            _ => Act::sleep(10),
        });
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        eventually(SOON, "ready", async || runtime.health().ready).await;
        let health = runtime.health();
        for part in ["database", "consumer matrix-scripted"] {
            assert!(health.component(part).is_some_and(|part| part.up), "{part}: {health:?}");
        }
        place.enqueue(10, 30).await;
        idle(&runtime).await;
        assert_eq!(place.count("effects", "1 = 1").await, 20, "idle: nothing is under way");
        place.enqueue(1, 2).await;
        place.rows_become("parked_messages", "status = 'Retrying'", 1).await;
        assert!(
            tokio::time::timeout(Duration::from_millis(300), runtime.idle()).await.is_err(),
            "one waits for its run"
        );
        idle(&runtime).await;
        assert_eq!(place.effects_of(1).await, 1);
        runtime.shutdown().await;
    }

    /// F20: instances that start at once, and again, bring the tables once and keep what is in them.
    async fn any_number_of_starts_bring_the_tables_once(place) {
        let migrations = place.count("_outbox_migrations", "1 = 1").await;
        assert!(migrations > 0);
        let script = Script::done();
        for round in 0..2 {
            let start = || place.scripted(&script, quick()).migrations(Migrations::Run).fail_fast(true).start();
            let (one, two, three) = tokio::join!(start(), start(), start());
            let runtimes = [one.expect("start"), two.expect("start"), three.expect("start")];
            place.enqueue(round * 10, round * 10 + 10).await;
            place.settled(round * 10 + 10).await;
            for runtime in runtimes {
                runtime.shutdown().await;
            }
        }
        assert_eq!(place.count("_outbox_migrations", "1 = 1").await, migrations);
    }

    /// Roles: one process publishes only, one relays, one consumes.
    async fn the_roles_work_together_from_three_runtimes(place) {
        let publish_only = place.runtime([]).role(Role::PublishOnly).start().await.unwrap();
        place.enqueue(0, 20).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(place.count("outbox_messages", "status = 'Pending'").await, 20, "nobody relays yet");
        let consume = place.runtime([S::handlers().stock]).role(Role::Consume).start().await.unwrap();
        eventually(SOON, "it consumes", async || consume.health().ready).await;
        let relay = place.runtime([]).role(Role::Relay).start().await.unwrap();
        place.settled(20).await;
        for runtime in [&publish_only, &consume, &relay] {
            eventually(SOON, "ready", async || runtime.health().ready).await;
            runtime.shutdown().await;
        }
    }
}

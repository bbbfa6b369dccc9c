//! Order within a key, from the outbox to the consumer's queue (S3, R6): what waits for what, and what lets it go on.

use std::time::{Duration, Instant};

use outbox::{Draft, Enqueue, HandlerDescriptor, Role, Runtime, RuntimeBuilder};
use outbox_it::eventually;

use super::handlers::{Ledger, Moved, Opened};
use super::place::{Place, SOON};
use super::stores::TestStore;

fn opened(account: &str) -> Draft {
    Draft::new(&Opened { account: account.into() }, Enqueue::new().event_id(account))
}

fn moved(account: &str, step: usize) -> Draft {
    Moved { account: account.into(), step }.draft()
}

/// An account that is opened and moved three times.
async fn account<S: TestStore>(place: &Place<S>, account: &str) {
    place.commit([opened(account), moved(account, 1)]).await;
    place.commit([moved(account, 2)]).await;
    place.commit([moved(account, 3)]).await;
}

fn consumer<S: TestStore, const N: usize>(
    place: &Place<S>,
    ledger: &Ledger,
    handlers: [&'static HandlerDescriptor; N],
) -> RuntimeBuilder {
    place.runtime(handlers).role(Role::Consume).state(ledger.clone())
}

async fn ready(builder: RuntimeBuilder) -> Runtime {
    let runtime = builder.start().await.unwrap();
    eventually(SOON, "ready", async || runtime.health().ready).await;
    runtime
}

async fn becomes(ledger: &Ledger, account: &str, steps: &[usize]) {
    eventually(SOON, &format!("{steps:?} of {account}"), async || ledger.of(account).len() >= steps.len()).await;
    assert_eq!(ledger.of(account), steps, "{account}");
}

const FAILED_OPENINGS: &str = "event_type = 'ledger.opened' AND status = 'Failed' AND attempt_count = 1";

matrix! {
    /// S3, R6, promise 5: an event that no queue wants keeps the later ones of its key waiting, and nobody else; when a queue wants it, all of them
    /// are at the queue in the order of their commits. With two relays.
    async fn the_events_of_a_key_arrive_in_the_order_of_their_commits(place) {
        let ledger = Ledger::default();
        let relay = || place.runtime([]).role(Role::Relay);
        let relays = [ready(relay()).await, ready(relay()).await];
        let first = ready(consumer(place, &ledger, [S::handlers().moved])).await;
        place.commit([opened("held"), moved("held", 1), moved("held", 2), moved("free-0", 0)]).await;
        for step in 3..=20 {
            place.commit([moved("held", step), moved(&format!("free-{}", step % 3), step)]).await;
        }
        eventually(SOON, "the other keys", async || ledger.0.lock().unwrap().len() >= 19).await;
        // One by one, beside the tries of the held one: nobody waits for it.
        let begun = Instant::now();
        for step in 1..=10 {
            place.commit([moved("held", 20 + step), moved("late", step)]).await;
            eventually(Duration::from_secs(3), "the next of another key", async || ledger.of("late").len() == step).await;
        }
        println!("ten events of another key, one after the other: {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert!(ledger.of("held").is_empty(), "none passed the held one");
        place.rows_become("outbox_messages", "aggregate_id = 'held' AND status IN ('Pending', 'Processing')", 31).await;
        place.rows_become("outbox_messages", "event_id = 'held' AND attempt_count >= 2 AND last_error LIKE '%ledger.opened%'", 1).await;
        assert_eq!(place.count("outbox_messages", "attempt_count > 0 AND event_id <> 'held'").await, 0, "who waits spends nothing");
        first.shutdown().await;
        let second = ready(consumer(place, &ledger, [S::handlers().opened, S::handlers().moved])).await;
        becomes(&ledger, "held", &(0..=30).collect::<Vec<_>>()).await;
        for n in 0..3 {
            let steps: Vec<usize> = (0..=20).filter(|step| step % 3 == n && !(1..3).contains(step)).collect();
            becomes(&ledger, &format!("free-{n}"), &steps).await;
        }
        becomes(&ledger, "late", &(1..=10).collect::<Vec<_>>()).await;
        place.rows_become("outbox_messages", "status = 'Published'", 60).await;
        place.no_doubles().await;
        for runtime in relays.into_iter().chain([second]) {
            runtime.shutdown().await;
        }
    }

    /// R6: `on_failed = "block"` (the default): a Failed event keeps its key waiting until an operator skips it, discards it, or has it tried again.
    async fn a_failed_event_keeps_its_key_waiting_until_an_operator_acts(place) {
        let (ledger, admin) = (Ledger::default(), place.admin());
        for name in ["skipped", "discarded", "retried", "left"] {
            account(place, name).await;
        }
        place.execute("UPDATE outbox_messages SET unroutable = 'fail', max_attempts = 1 WHERE event_type = 'ledger.opened'").await;
        let first = ready(consumer(place, &ledger, [S::handlers().moved])).await;
        let relay = ready(place.runtime([]).role(Role::Relay)).await;
        place.rows_become("outbox_messages", FAILED_OPENINGS, 4).await;
        place.commit([moved("free", 1)]).await;
        becomes(&ledger, "free", &[1]).await;
        // Longer than the pause between two sweeps of what waits for nothing.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        assert_eq!(ledger.0.lock().unwrap().len(), 1, "the four keys wait");
        assert_eq!(admin.skip("skipped").await.unwrap().done(), 1);
        becomes(&ledger, "skipped", &[1, 2, 3]).await;
        assert_eq!(admin.discard("discarded", "no such account").await.unwrap().done(), 1);
        becomes(&ledger, "discarded", &[1, 2, 3]).await;
        first.shutdown().await;
        let second = ready(consumer(place, &ledger, [S::handlers().opened, S::handlers().moved])).await;
        place.commit([moved("retried", 4)]).await;
        assert_eq!(admin.retry_now("retried").await.unwrap().done(), 1);
        becomes(&ledger, "retried", &[0, 1, 2, 3, 4]).await;
        assert!(ledger.of("left").is_empty());
        let rest = place.texts("SELECT event_id FROM outbox_messages WHERE status = 'Failed' ORDER BY event_id").await;
        assert_eq!(rest, ["left", "skipped"], "what was skipped is as it was");
        assert_eq!(place.count("outbox_messages", "aggregate_id = 'left' AND status = 'Pending' AND attempt_count = 0").await, 3);
        // What was skipped may be tried again; it goes out of its order, and nothing waits for it.
        place.commit([moved("skipped", 4)]).await;
        becomes(&ledger, "skipped", &[1, 2, 3, 4]).await;
        assert_eq!(admin.retry_now("skipped").await.unwrap().done(), 1);
        becomes(&ledger, "skipped", &[1, 2, 3, 4, 0]).await;
        place.no_doubles().await;
        relay.shutdown().await;
        second.shutdown().await;
    }

    /// R6: `on_failed = "skip"`: the key goes on without an event that is Failed, and without one that is held for longer than its age allows.
    async fn a_key_goes_on_without_a_failed_event_if_that_is_its_policy(place) {
        let ledger = Ledger::default();
        for name in ["failed", "aged", "young"] {
            account(place, name).await;
        }
        place.execute("UPDATE outbox_messages SET on_failed = 'skip' WHERE event_type = 'ledger.opened'").await;
        place.execute("UPDATE outbox_messages SET unroutable = 'fail', max_attempts = 1 WHERE event_id = 'failed'").await;
        place.execute(&format!("UPDATE outbox_messages SET max_age = {} WHERE event_id = 'aged'", S::age(1_000))).await;
        place.execute(&format!("UPDATE outbox_messages SET max_age = {} WHERE event_id = 'young'", S::age(3_600_000))).await;
        let first = ready(consumer(place, &ledger, [S::handlers().moved])).await;
        let relay = ready(place.runtime([]).role(Role::Relay)).await;
        becomes(&ledger, "failed", &[1, 2, 3]).await;
        becomes(&ledger, "aged", &[1, 2, 3]).await;
        place.rows_become("outbox_messages", FAILED_OPENINGS, 1).await;
        place.rows_become("outbox_messages", "event_id = 'aged' AND status = 'Pending' AND attempt_count >= 2", 1).await;
        assert!(ledger.of("young").is_empty(), "held, and not for long enough");
        first.shutdown().await;
        let second = ready(consumer(place, &ledger, [S::handlers().opened, S::handlers().moved])).await;
        becomes(&ledger, "young", &[0, 1, 2, 3]).await;
        becomes(&ledger, "aged", &[1, 2, 3, 0]).await;
        assert_eq!(ledger.of("failed"), [1, 2, 3], "Failed until an operator acts");
        relay.shutdown().await;
        second.shutdown().await;
    }
}

//! Runtimes that stop, crash, and work side by side.

use std::time::Duration;

use outbox::Role;
use outbox_it::eventually;

use super::place::{SOON, idle};
use crate::scripted::{Act, Script, quick};

/// Deliveries that were spent on messages which are in the queue now: only the database tells.
const SPENT: &str = "deliveries > 0 OR locked_by IS NOT NULL";

matrix! {
    /// Shutdown: handlers in flight finish, the rest goes back; the next runtime handles it, and nothing was run twice.
    async fn a_shutdown_lets_handlers_finish_and_gives_the_rest_back(place) {
        let script = Script::new(|_, _| Act::sleep(250));
        let options = quick().concurrency(2).prefetch(4);
        let first = place.scripted(&script, options.clone()).start().await.unwrap();
        place.enqueue(0, 8).await;
        eventually(SOON, "handlers run", async || !script.runs().is_empty()).await;
        first.shutdown().await;
        let done = script.runs().len();
        assert!((1..8).contains(&done), "{done}");
        assert_eq!(place.count("effects", "1 = 1").await, done, "what was in flight is committed");
        assert_eq!(
            (place.parked().await.len(), place.count("queue_messages", SPENT).await),
            (0, 0),
            "nothing is spent"
        );
        let second = place.scripted(&script, options).start().await.unwrap();
        place.settled(8).await;
        idle(&second).await;
        assert_eq!(script.runs().len(), 8, "none ran twice");
        assert!(script.runs().iter().all(|seen| seen.attempt == 1));
        second.shutdown().await;
    }

    /// C5: a shutdown that interrupts a run, in a delivery or of a parked message, spends neither attempt nor delivery.
    async fn a_shutdown_that_interrupts_a_run_spends_nothing(place) {
        let script = Script::new(|order, run| match (&order[11..], run) {
            ("1", 1) => Act::Return(outbox::Outcome::RetryAfter(Duration::from_millis(1))),
            ("1", 2) => Act::sleep(60_000),
            ("2", 1) => Act::sleep(60_000),
            _ => Act::Done,
        });
        for (order, event_id) in [(1, "parked"), (2, "delivery")] {
            let stop = Duration::from_millis(200);
            let first = place
                .scripted(&script, quick().timeout(Duration::from_secs(120)))
                .shutdown_timeout(stop)
                .start()
                .await
                .unwrap();
            place.enqueue_as(order, event_id).await;
            eventually(SOON, "it runs", async || script.runs_of(order).len() == 3 - order).await;
            first.shutdown().await;
            assert_eq!(place.inbox_state(event_id).await, if order == 1 { "Retrying" } else { "" });
            assert_eq!((place.effects_of(order).await, place.count("queue_messages", SPENT).await), (0, 0));
            let rows: Vec<_> = place.parked().await.into_iter().map(|row| (row.status, row.attempts)).collect();
            assert!(rows == [("Retrying".to_owned(), "1".to_owned())] || order == 2 && rows.is_empty(), "{rows:?}");
            let second = place.scripted(&script, quick()).start().await.unwrap();
            place.settled(order).await;
            second.shutdown().await;
        }
        let attempts = |n| script.runs_of(n).iter().map(|seen| seen.attempt).collect::<Vec<_>>();
        assert_eq!((attempts(1), attempts(2)), (vec![1, 2, 2], vec![1, 1]));
        assert_eq!(place.parked().await.len(), 0);
    }

    /// C3: what a consumer had that is gone without a word comes again, to another one, and has one effect.
    async fn what_a_crashed_consumer_had_is_delivered_again(place) {
        let script = Script::new(|_, run| if run == 1 { Act::sleep(60_000) } else { Act::Done });
        let lease = (Duration::from_secs(1), Duration::from_millis(500));
        let first = place.scripted(&script, quick()).lease(lease.0, lease.1).start().await.unwrap();
        place.enqueue(0, 1).await;
        eventually(SOON, "it runs", async || script.runs().len() == 1).await;
        drop(first);
        let second = place.scripted(&script, quick()).lease(lease.0, lease.1).start().await.unwrap();
        place.settled(1).await;
        idle(&second).await;
        assert_eq!(script.runs().iter().map(|seen| seen.attempt).collect::<Vec<_>>(), [1, 1]);
        assert_eq!((place.parked().await.len(), place.effects_of(0).await), (0, 1));
        second.shutdown().await;
    }

    /// R7: several runtimes share the work of one table; each event is run by one of them.
    async fn several_runtimes_share_the_work(place) {
        let scripts = [(); 3].map(|()| Script::new(|_, _| Act::sleep(2)));
        let mut runtimes = Vec::new();
        for script in &scripts {
            runtimes.push(place.scripted(script, quick().concurrency(2).prefetch(4)).start().await.unwrap());
        }
        for runtime in &runtimes {
            eventually(SOON, "ready", async || runtime.health().ready).await;
        }
        for n in 0..6 {
            place.enqueue(n * 20, n * 20 + 20).await;
        }
        place.settled(120).await;
        idle(&runtimes[0]).await;
        let runs: Vec<usize> = scripts.iter().map(|script| script.runs().len()).collect();
        assert!(runs.iter().all(|n| *n > 0), "each had its part: {runs:?}");
        assert_eq!(runs.iter().sum::<usize>(), 120, "none was run twice: {runs:?}");
        for runtime in runtimes {
            runtime.shutdown().await;
        }
    }

    /// Promise 3: a consumer never has more than its prefetch; the rest is there for others.
    async fn a_consumer_never_takes_more_than_its_prefetch(place) {
        let script = Script::new(|_, _| Act::sleep(60_000));
        let options = quick().concurrency(2).prefetch(3).timeout(Duration::from_secs(120));
        place.declared(&script, options.clone()).await;
        let relay = place.runtime([]).role(Role::Relay).start().await.unwrap();
        place.enqueue(0, 12).await;
        place.rows_become("outbox_messages", "status = 'Published'", 12).await;
        relay.shutdown().await;
        let consumer =
            place.scripted(&script, options).role(Role::Consume).shutdown_timeout(Duration::from_millis(200));
        let consumer = consumer.start().await.unwrap();
        eventually(SOON, "it has what it may have", async || place.waiting("matrix-scripted").await == 9).await;
        eventually(SOON, "it is at work", async || !script.runs().is_empty()).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(place.waiting("matrix-scripted").await, 9);
        assert!(script.runs().len() <= 2, "its concurrency");
        consumer.shutdown().await;
        eventually(SOON, "all of it went back", async || place.waiting("matrix-scripted").await == 12).await;
        assert_eq!(place.count("effects", "1 = 1").await, 0);
    }

    /// C7: what was delivered as often as it may be, without ever coming to an end, runs alone, once: it may take the process with it.
    async fn a_message_over_the_delivery_limit_runs_alone(place) {
        let script = Script::new(|order, _| Act::sleep(if order.ends_with('9') { 400 } else { 20 }));
        place.declared(&script, quick()).await;
        let relay = place.runtime([]).role(Role::Relay).start().await.unwrap();
        place.enqueue_as(9, "limit").await;
        place.rows_become("outbox_messages", "status = 'Published'", 1).await;
        relay.shutdown().await;
        place.exhaust("matrix-scripted").await;
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        place.enqueue(20, 40).await;
        place.settled(21).await;
        idle(&runtime).await;
        let alone = script.runs_of(9);
        assert_eq!((alone.len(), alone[0].attempt), (1, 1));
        let (start, end) = (alone[0].at, alone[0].at + Duration::from_millis(400));
        let beside = script
            .runs()
            .into_iter()
            .filter(|seen| seen.event_id != "limit" && seen.at + Duration::from_millis(20) > start && seen.at < end);
        assert_eq!(beside.count(), 0, "nothing runs beside it");
        assert_eq!((place.inbox_state("limit").await.as_str(), place.parked().await.len()), ("Processed", 0));
        runtime.shutdown().await;
    }
}

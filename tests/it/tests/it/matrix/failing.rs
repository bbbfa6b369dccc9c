//! What becomes of a run that does not end well, and of a message that comes again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outbox::Outcome;
use outbox::telemetry::names;
use outbox_it::eventually;

use super::place::{SOON, idle};
use crate::meter::Meter;
use crate::scripted::{Act, Script, quick};

matrix! {
    /// C2: while it waits for another run, after it was handled, and after it was given up, a copy is acked unrun and counted.
    async fn a_copy_of_a_decided_message_is_acked_unrun(place) {
        let meter = Meter::install();
        let script = Script::new(|order, _| match &order[11..] {
            "1" => Act::Done,
            "2" => Act::Return(Outcome::RetryAfter(Duration::from_secs(3600))),
            _ => Act::FailDead("no such article"),
        });
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        for (order, event_id, state) in [(1, "handled", "Processed"), (2, "waits", "Retrying"), (3, "given-up", "Dead")]
        {
            place.enqueue_as(order, event_id).await;
            place.becomes(event_id, state).await;
            place.publish_again(event_id).await;
            place.publish_again(event_id).await;
        }
        let counted = async || meter.counter(names::DUPLICATES, "consumer=matrix-scripted") == 6;
        eventually(SOON, "six copies are counted", counted).await;
        eventually(SOON, "they have left the queue", async || place.waiting("matrix-scripted").await == 0).await;
        assert_eq!((script.runs().len(), place.parked().await.len()), (3, 2), "none was run, none was parked again");
        place.no_doubles().await;
        runtime.shutdown().await;
    }

    /// C2, C4, promise 6: fails at once, again, and parked, then succeeds: one effect, one key, attempts that count up.
    async fn a_run_that_fails_is_repeated_until_it_has_one_effect(place) {
        let script = Script::new(|_, run| if run <= 3 { Act::Fail("not yet") } else { Act::Done });
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        place.enqueue_as(1, "later").await;
        place.settled(1).await;
        idle(&runtime).await;
        let runs = script.runs();
        assert_eq!(runs.iter().map(|seen| seen.attempt).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(runs.iter().all(|seen| seen.key == "matrix-scripted/later" && seen.event_id == "later"), "{runs:?}");
        assert!(runs[2].at - runs[1].at >= Duration::from_millis(45), "the third run waits for its time: {runs:?}");
        assert_eq!((place.effects_of(1).await, place.parked().await.len()), (1, 0));
        assert_eq!(place.inbox_state("later").await, "Processed");
        runtime.shutdown().await;
    }

    /// C4: attempts spent: Dead with the reason and the error, and no effect of any run.
    async fn a_message_whose_attempts_are_spent_is_dead(place) {
        let script = Script::new(|_, _| Act::Fail("no stock today"));
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        place.enqueue_as(1, "hopeless").await;
        place.becomes("hopeless", "Dead").await;
        let row = place.parked().await.remove(0);
        assert_eq!((row.status.as_str(), row.reason.as_str(), row.attempts.as_str()), ("Dead", "attempts spent", "4"));
        assert!(row.error.contains("no stock today"), "{}", row.error);
        idle(&runtime).await;
        assert_eq!((script.runs().len(), place.effects_of(1).await), (4, 0));
        runtime.shutdown().await;
    }

    /// C4: what a handler says about its message happens to it: Dead at once, by outcome or by error, and another time after that long.
    async fn a_handler_decides_for_dead_or_for_later(place) {
        let script = Script::new(|order, run| match (&order[11..], run) {
            ("1", _) => Act::Return(Outcome::Dead("no such customer".to_owned())),
            ("2", _) => Act::FailDead("no such article"),
            ("3", 1) => Act::Return(Outcome::RetryAfter(Duration::from_millis(500))),
            _ => Act::Done,
        });
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        for (order, event_id) in [(1, "outcome"), (2, "error"), (3, "later")] {
            place.enqueue_as(order, event_id).await;
        }
        for (event_id, state) in [("outcome", "Dead"), ("error", "Dead"), ("later", "Processed")] {
            place.becomes(event_id, state).await;
        }
        let mut rows = place.parked().await;
        rows.sort_by(|a, b| a.event_id.cmp(&b.event_id));
        assert_eq!(rows.len(), 2);
        for (row, error) in rows.iter().zip(["no such article", "no such customer"]) {
            assert_eq!((row.status.as_str(), row.reason.as_str()), ("Dead", "rejected by the handler"));
            assert!(row.error.contains(error), "{}", row.error);
        }
        assert_eq!((script.runs_of(1).len(), script.runs_of(2).len()), (1, 1));
        let runs = script.runs_of(3);
        assert!(runs.len() == 2 && runs[1].at - runs[0].at >= Duration::from_millis(490), "{runs:?}");
        assert_eq!((place.effects_of(1).await, place.effects_of(2).await, place.effects_of(3).await), (0, 0, 1));
        runtime.shutdown().await;
    }

    /// C5, F14: a panic after the work is a failed run; nothing of it stays, and the others go on.
    async fn a_panic_is_a_failed_run_and_nothing_of_it_stays(place) {
        let script = Script::new(|order, run| match (&order[11..], run) {
            ("1", 1..=2) | ("2", _) => Act::Panic("the handler's own mistake"),
            _ => Act::Done,
        });
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        place.enqueue_as(1, "once").await;
        place.enqueue_as(2, "always").await;
        place.becomes("always", "Dead").await;
        place.becomes("once", "Processed").await;
        let row = place.parked().await.remove(0);
        assert!(row.error.contains("the handler panicked: the handler's own mistake"), "{}", row.error);
        assert_eq!((script.runs_of(1).len(), script.runs_of(2).len()), (3, 4));
        assert_eq!((place.effects_of(1).await, place.effects_of(2).await), (1, 0));
        place.enqueue(13, 20).await;
        place.settled(8).await;
        runtime.shutdown().await;
    }

    /// C5: a run that takes too long is a failed one; nothing of it stays, and it holds nobody up for longer.
    async fn a_run_that_takes_too_long_is_a_failed_run(place) {
        let script = Script::new(|order, run| match (&order[11..], run) {
            ("1", _) | ("2", 1) => Act::sleep(60_000),
            _ => Act::Done,
        });
        let runtime = place.scripted(&script, quick().timeout(Duration::from_millis(300))).start().await.unwrap();
        place.enqueue_as(1, "never").await;
        place.enqueue_as(2, "later").await;
        place.becomes("never", "Dead").await;
        place.becomes("later", "Processed").await;
        let row = place.parked().await.remove(0);
        assert_eq!((row.reason.as_str(), row.attempts.as_str()), ("attempts spent", "4"));
        assert!(row.error.contains("longer than 0.3 s"), "{}", row.error);
        assert_eq!((place.effects_of(1).await, place.effects_of(2).await), (0, 1));
        assert_eq!(script.runs_of(2).len(), 2);
        runtime.shutdown().await;
    }

    /// C1: the database has given the transaction up; acked as done, its effects would be lost.
    async fn a_run_that_ignores_a_failed_statement_commits_nothing(place) {
        let script = Script::new(|_, _| Act::swallow("INSERT INTO no_such_table VALUES (1)"));
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        place.enqueue_as(1, "swallowed").await;
        if place.can() {
            place.becomes("swallowed", "Dead").await;
            let row = place.parked().await.remove(0);
            assert_eq!(
                (row.status.as_str(), row.reason.as_str(), row.attempts.as_str()),
                ("Dead", "attempts spent", "4")
            );
            assert!(row.error.contains("its error was ignored"), "{}", row.error);
            assert_eq!((script.runs().len(), place.effects_of(1).await), (4, 0));
        } else {
            // The failed statement alone did nothing; what stands in the transaction beside it is the run's effect, once.
            place.settled(1).await;
            place.becomes("swallowed", "Processed").await;
            assert_eq!((script.runs().len(), place.effects_of(1).await, place.parked().await.len()), (1, 1, 0));
        }
        runtime.shutdown().await;
    }

    /// C1: a handler's own COMMIT: nobody knows what of the run is done, so it is Dead however it ends, told, and not run again.
    async fn a_handler_that_commits_itself_is_dead_at_once(place) {
        let script = Script::new(|order, _| match &order[11..] {
            "1" => Act::swallow("COMMIT"),
            "2" => Act::Swallow("COMMIT", Box::new(Act::Fail("after the commit"))),
            _ => Act::Swallow("COMMIT; BEGIN", Box::new(Act::Panic("after the commit"))),
        });
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        for n in 1..=3 {
            place.enqueue_as(n, &format!("end-{n}")).await;
            place.becomes(&format!("end-{n}"), "Dead").await;
            let row = place.parked().await.pop().unwrap();
            assert_eq!(row.status, "Dead");
            if place.can() || n == 1 {
                assert_eq!((row.reason.as_str(), script.runs_of(n).len()), ("the handler ended the transaction", 1));
                assert!(row.error.contains("ended the transaction itself"), "{}", row.error);
            } else {
                assert_eq!((row.reason.as_str(), script.runs_of(n).len()), ("attempts spent", 4));
            }
            assert_eq!(place.effects_of(n).await, S::KEPT_BY_COMMIT, "{n}");
        }
        idle(&runtime).await;
        assert_eq!(place.parked().await.len(), 3, "none is parked again");
        runtime.shutdown().await;
    }

    /// C1: a handler's own ROLLBACK takes the dedup record with it, and what follows is in no transaction.
    async fn a_handler_that_rolls_back_itself_is_dead_at_once(place) {
        let script = Script::new(|_, _| Act::sql("ROLLBACK"));
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        place.enqueue_as(1, "rolled-back").await;
        place.becomes("rolled-back", "Dead").await;
        idle(&runtime).await;
        let row = place.parked().await.remove(0);
        let (reason, runs) = if place.can() { ("the handler ended the transaction", 1) } else { ("attempts spent", 4) };
        assert_eq!(
            (row.reason.as_str(), script.runs().len(), place.effects_of(1).await),
            (reason, runs, 0),
            "{}",
            row.error
        );
        runtime.shutdown().await;
    }

    /// What an operator does by SQL (docs/operations.md): both rows are turned, and the message runs again.
    async fn a_dead_message_runs_again_when_both_of_its_rows_are_turned(place) {
        let open = Arc::new(AtomicBool::new(false));
        let script = Script::new({
            let open = Arc::clone(&open);
            move |_, _| if open.load(Ordering::SeqCst) { Act::Done } else { Act::FailDead("closed") }
        });
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        place.enqueue_as(1, "half").await;
        place.enqueue_as(2, "whole").await;
        place.becomes("half", "Dead").await;
        place.becomes("whole", "Dead").await;
        open.store(true, Ordering::SeqCst);
        let again =
            format!("UPDATE parked_messages SET status = 'Retrying', attempts = 0, next_attempt_at = {}", S::NOW);
        let of = |id: &str| format!("consumer = 'matrix-scripted' AND event_id = '{id}'");
        // Half of it is told, not retried in silence for ever.
        place.execute(&format!("{again} WHERE {} AND status = 'Dead'", of("half"))).await;
        place
            .rows_become(
                "parked_messages",
                "event_id = 'half' AND status = 'Dead' AND reason = 'dedup record disagrees'",
                1,
            )
            .await;
        for id in ["half", "whole"] {
            let (inbox, parked) = (of(id), of(id));
            place.execute(&format!(
                "BEGIN; UPDATE inbox_messages SET state = 'Retrying' WHERE {inbox} AND state = 'Dead'; {again} WHERE {parked} AND status = 'Dead'; COMMIT"
            )).await;
        }
        place.settled(2).await;
        assert_eq!(place.parked().await.len(), 0);
        runtime.shutdown().await;
    }
}

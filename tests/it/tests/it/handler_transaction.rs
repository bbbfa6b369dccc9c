//! C1: a handler that breaks its transaction is never acked as done.

use std::time::Duration;

use outbox_it::{Logs, eventually};

use crate::scripted::{Act, Script, effects_of, enqueue_as, inbox_state, parked, quick, runtime};
use crate::world::World;

const SOON: Duration = Duration::from_secs(20);

/// C1: an error that is swallowed once is a failed run, and the next one counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_swallowed_sql_error_is_a_failed_run_and_the_next_one_has_the_effect() {
    let world = World::new().await;
    let script = Script::new(|_, run| if run < 3 { Act::swallow("SELECT 1/0") } else { Act::Done });
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    enqueue_as(&world.db, 1, "swallowed").await;
    world.settled(1, SOON).await;
    assert_eq!(script.runs().len(), 3);
    eventually(SOON, "nothing is parked", async || parked(&world.db).await.is_empty()).await;
    assert_eq!(inbox_state(&world.db, "swallowed").await.as_deref(), Some("Processed"));
    runtime.shutdown().await;
}

/// C1: a handler's own ROLLBACK takes the dedup record with it, and what follows is not in a transaction any more. No further run: each
/// would repeat what the server has committed statement by statement.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_rolls_back_by_itself_is_dead_and_told() {
    let logs = Logs::capture();
    for (order, sql, event_id) in [(1, "ROLLBACK", "rolled-back"), (2, "ROLLBACK; BEGIN", "rolled-back-and-on")] {
        let world = World::new().await;
        let script = Script::new(move |_, _| Act::sql(sql));
        let runtime = runtime(&world, &script, quick()).start().await.unwrap();
        enqueue_as(&world.db, order, event_id).await;
        eventually(SOON, "it is dead", async || inbox_state(&world.db, event_id).await.as_deref() == Some("Dead"))
            .await;
        let parked = parked(&world.db).await;
        assert_eq!((parked.len(), parked[0].status.as_str()), (1, "Dead"), "{sql}");
        assert!(parked[0].error.contains("ended the transaction itself"), "{sql}: {}", parked[0].error);
        assert_eq!(script.runs().len(), 1, "{sql}");
        assert_eq!(effects_of(&world.db, order).await, 0, "{sql}");
        logs.assert_present(&["a message is Dead", event_id]);
        runtime.shutdown().await;
    }
}

/// C1: a handler's own COMMIT makes the dedup record durable before the run has ended. Whatever follows — success, an error, a panic — nobody
/// may take the record for a finished run: the message is Dead, told, and not run again.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_commits_by_itself_is_dead_and_told_however_it_ends() {
    let logs = Logs::capture();
    type End = (&'static str, fn() -> Act);
    let ends: [End; 5] = [
        ("commit-done", || Act::sql("COMMIT")),
        ("commit-error", || Act::Sql("COMMIT", Box::new(Act::Fail("after the commit")))),
        ("commit-panic", || Act::Sql("COMMIT", Box::new(Act::Panic("after the commit")))),
        ("commit-begin-error", || Act::Sql("COMMIT; BEGIN", Box::new(Act::Fail("after the commit")))),
        ("commit-begin-swallowed", || Act::Sql("COMMIT; BEGIN", Box::new(Act::swallow("SELECT 1/0")))),
    ];
    for (n, (event_id, act)) in ends.into_iter().enumerate() {
        let world = World::new().await;
        let script = Script::new(move |_, _| act());
        let runtime = runtime(&world, &script, quick()).start().await.unwrap();
        enqueue_as(&world.db, n, event_id).await;
        eventually(SOON, event_id, async || inbox_state(&world.db, event_id).await.as_deref() == Some("Dead")).await;
        let parked = parked(&world.db).await;
        assert_eq!((parked.len(), parked[0].status.as_str()), (1, "Dead"), "{event_id}");
        assert!(parked[0].error.contains("ended the transaction itself"), "{event_id}: {}", parked[0].error);
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!((script.runs().len(), effects_of(&world.db, n).await), (1, 1), "{event_id}");
        logs.assert_present(&["a message is Dead", event_id]);
        runtime.shutdown().await;
    }
}

/// C1, C2: the same in the run of a parked message, whose row the handler's COMMIT has taken away.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_run_that_commits_by_itself_is_dead_and_told() {
    let world = World::new().await;
    let script = Script::new(|_, run| match run {
        1 | 2 => Act::Fail("not yet"),
        _ => Act::Sql("COMMIT", Box::new(Act::Fail("after the commit"))),
    });
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    enqueue_as(&world.db, 1, "parked-commit").await;
    eventually(SOON, "it is dead", async || inbox_state(&world.db, "parked-commit").await.as_deref() == Some("Dead"))
        .await;
    let parked = parked(&world.db).await;
    assert_eq!((parked.len(), parked[0].status.as_str(), script.runs().len()), (1, "Dead", 3));
    assert!(parked[0].error.contains("ended the transaction itself"), "{}", parked[0].error);
    runtime.shutdown().await;
}

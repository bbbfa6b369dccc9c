//! C5: runs that do not end by themselves: timeouts, panics, shutdowns.

use std::time::Duration;

use outbox_it::eventually;

use crate::scripted::{Act, Script, effects_of, enqueue_as, inbox_state, parked, quick, runtime};
use crate::world::World;

const SOON: Duration = Duration::from_secs(20);
const AT_WORK: &str = "state = 'active' AND query LIKE 'SELECT pg_sleep(60)%'";

/// C5: a run that takes too long is a failed one. Its session is gone, on the server too, where a statement does not notice that nobody listens:
/// else the next run would wait for its locks.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_too_long_is_a_failure_and_its_session_is_gone() {
    let world = World::new().await;
    let script = Script::new(|_, run| if run <= 2 { Act::sql("SELECT pg_sleep(60)") } else { Act::Done });
    let runtime = runtime(&world, &script, quick().timeout(Duration::from_secs(1))).start().await.unwrap();
    enqueue_as(&world.db, 1, "slow").await;
    eventually(SOON, "it runs", async || world.db.sessions(AT_WORK).await == 1).await;
    world.settled(1, Duration::from_secs(10)).await;
    assert_eq!(world.db.sessions(AT_WORK).await, 0);
    let runs = script.runs();
    assert_eq!(runs.iter().map(|seen| seen.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    let pause = runs[1].at - runs[0].at;
    assert!((Duration::from_millis(950)..Duration::from_secs(4)).contains(&pause), "{pause:?}");
    runtime.shutdown().await;
}

/// C5: a handler that never answers comes to an end as Dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_always_takes_too_long_ends_as_dead() {
    let world = World::new().await;
    let script = Script::new(|_, _| Act::sleep(60_000));
    let runtime = runtime(&world, &script, quick().timeout(Duration::from_millis(300))).start().await.unwrap();
    enqueue_as(&world.db, 1, "never").await;
    eventually(SOON, "it is dead", async || inbox_state(&world.db, "never").await.as_deref() == Some("Dead")).await;
    let row = parked(&world.db).await.remove(0);
    assert_eq!((row.reason.as_str(), row.attempts), ("attempts spent", 4));
    assert!(row.error.contains("longer than 0.3 s"), "{}", row.error);
    assert_eq!((world.db.idle_in_transaction(Duration::ZERO).await, effects_of(&world.db, 1).await), (0, 0));
    runtime.shutdown().await;
}

/// C5, F14: a panic after the work is a failed run; the runtime and the other messages go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_failed_run_and_nothing_of_it_stays() {
    let world = World::new().await;
    let script = Script::new(|order, run| match (&order[11..], run) {
        ("1", 1..=2) => Act::Panic("the handler's own mistake"),
        ("2", _) => Act::Panic("the handler's own mistake"),
        _ => Act::Done,
    });
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    enqueue_as(&world.db, 1, "once").await;
    enqueue_as(&world.db, 2, "always").await;
    eventually(SOON, "one is dead", async || inbox_state(&world.db, "always").await.as_deref() == Some("Dead")).await;
    eventually(SOON, "one is handled", async || inbox_state(&world.db, "once").await.as_deref() == Some("Processed"))
        .await;
    let row = parked(&world.db).await.remove(0);
    assert!(row.error.contains("the handler panicked: the handler's own mistake"), "{}", row.error);
    assert_eq!((script.runs_of(1).len(), script.runs_of(2).len()), (3, 4));
    assert_eq!((effects_of(&world.db, 1).await, effects_of(&world.db, 2).await), (1, 0));
    world.enqueue(13, 20).await;
    world.settled(8, SOON).await;
    assert_eq!(world.db.idle_in_transaction(Duration::ZERO).await, 0);
    runtime.shutdown().await;
}

/// C5: a shutdown that interrupts a long run, in a delivery or of a parked message, spends nothing and leaves no session; after the restart the
/// event is handled.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_that_interrupts_a_run_spends_nothing() {
    let world = World::new().await;
    let script = Script::new(|order, run| match (&order[11..], run) {
        ("1", 1) | ("2", 2) => Act::sql("SELECT pg_sleep(60)"),
        ("2", 1) => Act::Return(outbox::Outcome::RetryAfter(Duration::from_millis(1))),
        _ => Act::Done,
    });
    let options = quick().timeout(Duration::from_secs(120));
    let first =
        runtime(&world, &script, options.clone()).shutdown_timeout(Duration::from_secs(1)).start().await.unwrap();
    enqueue_as(&world.db, 1, "delivery").await;
    enqueue_as(&world.db, 2, "parked").await;
    eventually(SOON, "both run", async || world.db.sessions(AT_WORK).await == 2).await;
    let before = std::time::Instant::now();
    first.shutdown().await;
    assert!(before.elapsed() < Duration::from_secs(9), "{:?}", before.elapsed());
    eventually(Duration::from_secs(3), "no session is left", async || world.db.sessions(AT_WORK).await == 0).await;
    assert_eq!(inbox_state(&world.db, "delivery").await, None);
    let row = parked(&world.db).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts, row.locked_by), ("Retrying", 1, None));

    let second = runtime(&world, &script, options).start().await.unwrap();
    world.settled(2, SOON).await;
    assert_eq!(script.runs_of(1).iter().map(|seen| seen.attempt).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(script.runs_of(2).iter().map(|seen| seen.attempt).collect::<Vec<_>>(), [1, 2, 2]);
    second.shutdown().await;
}

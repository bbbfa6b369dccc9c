//! F47, F50: settings of the database, the role or the server that other people choose.

use std::time::Duration;

use outbox_it::{OwnPostgres, TestVhost, eventually};

use crate::scripted::{Act, Script, effects_of, enqueue_as, inbox_state, parked, quick, runtime, runtime_at};
use crate::world::{World, enqueue, prepare, settled};

const SOON: Duration = Duration::from_secs(30);

async fn set(world: &World, setting: &str) {
    world.db.execute(&format!("ALTER DATABASE {} SET {setting}", world.db.name())).await;
}

/// F47: `idle_in_transaction_session_timeout` ends the transaction of a handler that thinks too long: a failed run by the retry policy, however
/// the handler ends, and the loop lives.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_server_ends_for_idling_is_a_failed_run() {
    let world = World::new().await;
    set(&world, "idle_in_transaction_session_timeout = '1s'").await;
    let script = Script::new(|order, run| match (&order[11..], run) {
        ("1", 1) => Act::sleep(2_500),
        ("2", 1) => Act::Sleep(Duration::from_millis(2_500), Box::new(Act::sql("SELECT 1"))),
        ("3", 1) => Act::Sleep(Duration::from_millis(2_500), Box::new(Act::swallow("SELECT 1"))),
        ("4", _) => Act::sleep(1_500),
        _ => Act::Done,
    });
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    for order in 1..=4 {
        enqueue_as(&world.db, order, &format!("idle-{order}")).await;
    }
    eventually(SOON, "one is dead", async || inbox_state(&world.db, "idle-4").await.as_deref() == Some("Dead")).await;
    world.enqueue(15, 20).await;
    world.settled(8, SOON).await;
    // The third forgot the error, and its connection is gone: that is a lost connection before it is its fault.
    assert_eq!(script.runs_of(3).len(), 2);
    for order in 1..=2 {
        let attempts: Vec<u32> = script.runs_of(order).iter().map(|seen| seen.attempt).collect();
        assert_eq!(attempts, [1, 2], "order {order}: the run counts");
    }
    let row = parked(&world.db).await.remove(0);
    assert_eq!((row.reason.as_str(), row.attempts, effects_of(&world.db, 4).await), ("attempts spent", 4, 0));
    assert!(row.error.contains("idle_in_transaction_session_timeout") || row.error.contains("25P03"), "{}", row.error);
    runtime.shutdown().await;
}

/// F47: `statement_timeout` on the role: a handler's slow statement is a failed run; the engine goes on with its own short ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_timeout_of_the_role_is_a_failed_run_and_the_loops_live() {
    let world = World::new().await;
    set(&world, "statement_timeout = '250ms'").await;
    let script = Script::new(|order, run| match (&order[11..], run) {
        ("1", 1..=2) | ("2", _) => Act::sql("SELECT pg_sleep(1)"),
        _ => Act::Done,
    });
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    enqueue_as(&world.db, 1, "slow-twice").await;
    enqueue_as(&world.db, 2, "slow-always").await;
    eventually(SOON, "one is dead", async || inbox_state(&world.db, "slow-always").await.as_deref() == Some("Dead"))
        .await;
    world.enqueue(3, 10).await;
    world.settled(8, SOON).await;
    assert_eq!((script.runs_of(1).len(), script.runs_of(2).len()), (3, 4));
    assert_eq!(parked(&world.db).await[0].reason, "attempts spent");
    eventually(SOON, "all loops are up", async || runtime.health().ready).await;
    runtime.shutdown().await;
}

/// F50, S8: whatever isolation the database has as a default, on the runtime's own pool and on the service's; twenty handlers at a time on one hot row:
/// no attempt is spent, no effect doubles.
async fn isolation(level: &str) {
    let world = World::new().await;
    set(&world, &format!("default_transaction_isolation = '{level}'")).await;
    world
        .db
        .execute("CREATE TABLE stock (article int PRIMARY KEY, n int NOT NULL); INSERT INTO stock VALUES (0, 0)")
        .await;
    let script = Script::new(|_, run| match run {
        1 => Act::Sql("UPDATE stock SET n = n + 1", Box::new(Act::Fail("once"))),
        2 => Act::Sql(
            "UPDATE stock SET n = n + 1",
            Box::new(Act::Return(outbox::Outcome::RetryAfter(Duration::from_millis(100)))),
        ),
        _ => Act::sql("UPDATE stock SET n = n + 1"),
    });
    let options = || quick().concurrency(10).retry(1, (Duration::from_millis(50), Duration::from_millis(50)), 4);
    let own = runtime(&world, &script, options()).start().await.unwrap();
    let of_the_service = runtime(&world, &script, options()).database(world.db.pool_of(13)).start().await.unwrap();
    world.enqueue(0, 200).await;
    world.settled(200, Duration::from_secs(60)).await;
    eventually(SOON, "nothing is parked", async || parked(&world.db).await.is_empty()).await;
    assert_eq!(world.db.number("SELECT n::bigint FROM stock").await, 200, "{level}");
    let most = script.runs().iter().map(|seen| seen.attempt).max();
    assert_eq!((most, script.runs().len()), (Some(3), 600), "{level}: each ran three times, as told");
    assert!(own.health().ready && of_the_service.health().ready, "{} {}", own.health(), of_the_service.health());
    own.shutdown().await;
    of_the_service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_default_isolation_of_serializable_changes_nothing() {
    isolation("serializable").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_default_isolation_of_repeatable_read_changes_nothing() {
    isolation("repeatable read").await;
}

/// F50: a server that speaks another language: conditions are found by SQLSTATE.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_server_of_another_language_is_understood() {
    let (server, vhost) = tokio::join!(
        OwnPostgres::start_in(&[("idle_in_transaction_session_timeout", "1s")], Some("de")),
        TestVhost::new()
    );
    let db = server.database().await;
    prepare(&db).await;
    let script = Script::new(|order, run| match (&order[11..], run) {
        ("1", 1..=6) => Act::sql("DO $$ BEGIN RAISE EXCEPTION 'Konflikt' USING ERRCODE = '40001'; END $$"),
        ("2", 1) => Act::swallow("SELECT 1/0"),
        ("3", 1) => Act::sleep(2_000),
        ("4", _) => Act::sql("COMMIT"),
        ("5", 1) => Act::sql("SELECT pg_terminate_backend(pg_backend_pid())"),
        _ => Act::Done,
    });
    let runtime = runtime_at(&db.url(), vhost.url(), &script, quick()).start().await.unwrap();
    enqueue(&db, 0, 10).await;
    settled(&db, 10, SOON).await;
    eventually(SOON, "one is dead", async || db.count("inbox_messages", "state = 'Dead'").await == 1).await;
    eventually(SOON, "the others are handled", async || db.count("inbox_messages", "state = 'Processed'").await == 9)
        .await;
    assert!(script.runs_of(1).iter().all(|seen| seen.attempt == 1));
    assert_eq!(
        script.runs_of(5).iter().map(|seen| seen.attempt).collect::<Vec<_>>(),
        [1, 1],
        "a lost connection is nobody's failure at first"
    );
    assert_eq!(parked(&db).await[0].reason, "the handler ended the transaction");
    runtime.shutdown().await;
}

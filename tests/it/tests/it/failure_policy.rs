//! C4: whose fault a failed run was, and what becomes of its message.

use std::time::Duration;

use outbox::telemetry::names;
use outbox::{Class, Classify, ConsumerOptions, Outcome, handler, handlers};
use outbox_it::eventually;
use sqlx::PgConnection;

use crate::meter::Meter;
use crate::scripted::{Act, Script, effects_of, enqueue_as, inbox_state, parked, quick, runtime};
use crate::world::{OrderCreated, World, effect};

const SOON: Duration = Duration::from_secs(20);

/// C4: an error runs again at once, then parked with growing pauses, then the message is Dead as "attempts spent"; no effect of it stays.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_retried_at_once_then_parked_then_dead() {
    let world = World::new().await;
    let script = Script::new(|_, _| Act::Fail("no stock today"));
    let options = ConsumerOptions::new().retry(1, (Duration::from_millis(400), Duration::from_secs(60)), 4);
    let runtime = runtime(&world, &script, options).start().await.unwrap();
    enqueue_as(&world.db, 1, "hopeless").await;
    eventually(SOON, "it is parked", async || inbox_state(&world.db, "hopeless").await.as_deref() == Some("Retrying"))
        .await;
    let row = parked(&world.db).await.remove(0);
    assert_eq!((row.status.as_str(), row.reason.as_str()), ("Retrying", "handler failed"));
    eventually(SOON, "it is dead", async || inbox_state(&world.db, "hopeless").await.as_deref() == Some("Dead")).await;
    let row = parked(&world.db).await.remove(0);
    assert_eq!((row.status.as_str(), row.reason.as_str(), row.attempts), ("Dead", "attempts spent", 4));
    assert!(row.error.contains("no stock today"), "{}", row.error);
    let runs = script.runs();
    assert_eq!(runs.iter().map(|seen| seen.attempt).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let pause = |n: usize| runs[n].at - runs[n - 1].at;
    assert!(pause(1) < Duration::from_millis(190), "at once: {:?}", pause(1));
    assert!(pause(2) >= Duration::from_millis(190), "half of the first pause at least: {:?}", pause(2));
    assert!(pause(3) >= Duration::from_millis(390), "half of the doubled one at least: {:?}", pause(3));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!((script.runs().len(), effects_of(&world.db, 1).await), (4, 0));
    runtime.shutdown().await;
}

#[derive(Debug)]
enum StockError {
    UnknownArticle,
    Locked,
}

impl std::fmt::Display for StockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for StockError {}

impl Classify for StockError {
    fn classify(&self) -> Class {
        match self {
            Self::UnknownArticle => Class::Dead,
            Self::Locked => Class::Retryable,
        }
    }
}

#[handler(consumer = "classified", retry(immediate = 1, delays = "100ms..100ms", max_attempts = 3))]
async fn classified(order: OrderCreated, db: &mut PgConnection) -> Result<(), StockError> {
    effect(db, "classified", &order.order_id).await.map_err(|_| StockError::Locked)?;
    Err(if order.order_id.ends_with('1') { StockError::UnknownArticle } else { StockError::Locked })
}

/// C4: an error type that classifies itself decides, case by case.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_type_that_classifies_itself_decides() {
    let world = World::new().await;
    let runtime = world.runtime(handlers![classified]).start().await.unwrap();
    enqueue_as(&world.db, 1, "unknown").await;
    enqueue_as(&world.db, 2, "locked").await;
    eventually(SOON, "both are dead", async || world.db.count("inbox_messages", "state = 'Dead'").await == 2).await;
    let reasons: Vec<_> =
        parked(&world.db).await.into_iter().map(|row| (row.event_id.unwrap(), row.reason, row.attempts)).collect();
    assert!(reasons.contains(&("unknown".into(), "rejected by the handler".into(), 1)), "{reasons:?}");
    assert!(reasons.contains(&("locked".into(), "attempts spent".into(), 3)), "{reasons:?}");
    assert_eq!(world.db.count("effects", "true").await, 0);
    runtime.shutdown().await;
}

/// C4, F50: a serialization failure is nobody's failure: it is run again, more often than the message has attempts, and none is spent.
#[tokio::test(flavor = "multi_thread")]
async fn a_serialization_failure_runs_again_without_spending_an_attempt() {
    let meter = Meter::install();
    let world = World::new().await;
    let script = Script::new(|_, run| match run {
        1..=6 => Act::sql("DO $$ BEGIN RAISE EXCEPTION 'in whatever language' USING ERRCODE = '40001'; END $$"),
        7 => Act::Return(Outcome::RetryAfter(Duration::from_millis(50))),
        8..=14 => Act::sql("DO $$ BEGIN RAISE EXCEPTION 'in whatever language' USING ERRCODE = '40P01'; END $$"),
        _ => Act::Done,
    });
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    enqueue_as(&world.db, 1, "conflicts").await;
    world.settled(1, SOON).await;
    let attempts: Vec<u32> = script.runs().iter().map(|seen| seen.attempt).collect();
    assert_eq!(attempts, [[1; 7].as_slice(), &[2; 8]].concat(), "in the delivery and in the parked run");
    assert_eq!(meter.counter(names::CONFLICTS, "consumer=scripted"), 13);
    assert!(parked(&world.db).await.is_empty());
    runtime.shutdown().await;
}

/// C4, F50: real deadlocks between handlers.
#[tokio::test(flavor = "multi_thread")]
async fn deadlocks_between_handlers_spend_nothing_and_double_nothing() {
    let world = World::new().await;
    world
        .db
        .execute(
            "CREATE TABLE stock (article int PRIMARY KEY, n int NOT NULL); INSERT INTO stock VALUES (0, 0), (1, 0)",
        )
        .await;
    let script = Script::new(|order, _| {
        let even = order.as_bytes()[order.len() - 1] % 2 == 0;
        let (first, second) = if even {
            ("UPDATE stock SET n = n + 1 WHERE article = 0", "UPDATE stock SET n = n + 1 WHERE article = 1")
        } else {
            ("UPDATE stock SET n = n + 1 WHERE article = 1", "UPDATE stock SET n = n + 1 WHERE article = 0")
        };
        Act::Sql(first, Box::new(Act::Sleep(Duration::from_millis(30), Box::new(Act::sql(second)))))
    });
    world.db.execute(&format!("ALTER DATABASE {} SET deadlock_timeout = '50ms'", world.db.name())).await;
    let runtime = runtime(&world, &script, quick().concurrency(8)).start().await.unwrap();
    world.enqueue(0, 40).await;
    world.settled(40, Duration::from_secs(60)).await;
    assert!(script.runs().len() > 40, "there were deadlocks");
    assert!(script.runs().iter().all(|seen| seen.attempt == 1), "{:?}", script.runs());
    assert_eq!(world.db.number("SELECT sum(n) FROM stock").await, 80);
    assert!(parked(&world.db).await.is_empty());
    runtime.shutdown().await;
}

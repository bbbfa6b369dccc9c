//! What a wake-up costs those who enqueue: commits per second of 64 writers, one event in a transaction (one statement, flushed), with no
//! NOTIFY at all (A), with R5 as built (B), and with a plain NOTIFY in every transaction (C), which PostgreSQL commits one after the other.
//!
//! Only the statement's last line differs. Everything else is the same in all three: a relay of this library runs all the time and publishes
//! what is written to a RabbitMQ queue that keeps little; before each measurement the table is emptied and the relay has gone to sleep, and the
//! same statement runs for a second before anything is counted, so that the relay is awake in all three (in A it finds the events by polling).
//! C notifies a channel that nobody listens to, so that the relay does not work more than in A and B.
//!
//! The rounds are A B C A B C ..; medians over the rounds, and the ratios to A within each round. A server of its own: 64 connections are many.
//!
//! `wakeup-cost [ROUNDS] [SECONDS] [WRITERS]`: 7 rounds of 3 s. Exits with 1 if B is below 0.95 of A.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a program for people")]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lapin::types::AMQPValue;
use outbox::{Broker, Role, Runtime};
use outbox_bench::{Tells, median};
use outbox_it::rabbit_wire::{table, text};
use outbox_it::{OwnPostgres, TestDatabase, TestVhost, eventually};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

const MODES: [(&str, Tells); 3] =
    [("A no NOTIFY", Tells::Never), ("B R5", Tells::IfAsleep), ("C plain NOTIFY", Tells::Always)];
const WARM_UP: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::main]
async fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let argument = |place: usize, default| numbers.get(place).copied().unwrap_or(default);
    let (rounds, seconds, writers) = (argument(0, 7), argument(1, 3), argument(2, 64));

    let postgres = OwnPostgres::start(&[("max_wal_size", "4GB")]).await;
    let (db, vhost) = (postgres.database().await, TestVhost::new().await);
    outbox::migrate(db.pool()).await.expect("migrations");
    let wire = vhost.wire().await;
    wire.topic_exchange("orders.events").await;
    let short = table([
        ("x-queue-type", text("classic")),
        ("x-max-length", AMQPValue::LongInt(100)),
        ("x-overflow", text("drop-head")),
    ]);
    wire.queue_with("sink", short).await;
    wire.bind("sink", "orders.events", "order.created").await;
    let relay = Runtime::builder()
        .database_url(db.url())
        .broker(Broker::RabbitMq(vhost.url().to_owned()))
        .registry([])
        .role(Role::Relay)
        .signals(false)
        .start()
        .await
        .expect("start");

    let mut rates = [const { Vec::new() }; 3];
    for round in 1..=rounds {
        for (index, (name, tells)) in MODES.into_iter().enumerate() {
            at_rest(&db).await;
            let (commits, notified) = measure(&db, tells, writers, Duration::from_secs(seconds)).await;
            let rate = commits as f64 / seconds as f64;
            println!("round {round} {name}: {rate:.0} commits/s, {notified} of {commits} notified the relay");
            rates[index].push(rate);
        }
    }
    relay.shutdown().await;

    let ratio = |index: usize| median(rates[index].iter().zip(&rates[0]).map(|(rate, plain)| rate / plain).collect());
    let medians = [0, 1, 2].map(|index| median(rates[index].clone()));
    let (b, c) = (ratio(1), ratio(2));
    println!(
        "wakeup-cost writers={writers} rounds={rounds} seconds={seconds} median_commits_per_s: no_notify={:.0} r5={:.0} plain_notify={:.0}",
        medians[0], medians[1], medians[2]
    );
    println!(
        "of medians: r5/no_notify={:.3} plain_notify/no_notify={:.3}; median of the rounds' ratios: r5/no_notify={b:.3} plain_notify/no_notify={c:.3}",
        medians[1] / medians[0],
        medians[2] / medians[0]
    );
    if b >= 0.95 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Everything is published, the table is empty, and the relay sleeps.
async fn at_rest(db: &TestDatabase) {
    eventually(PATIENCE, "everything is published", async || {
        db.count("outbox_messages", "status <> 'Published'").await == 0
    })
    .await;
    db.execute("TRUNCATE outbox_messages").await;
    db.execute("CHECKPOINT").await;
    eventually(PATIENCE, "the relay sleeps", async || {
        db.count("outbox_wakeup", "asleep_until > clock_timestamp()").await == 1
    })
    .await;
}

/// Commits within the time, after warming up, and how many of them notified the relay (those of the warm-up included).
async fn measure(db: &TestDatabase, tells: Tells, writers: u64, time: Duration) -> (u64, u64) {
    let (counting, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (commits, notified) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let statement: Arc<str> = Arc::from(tells.insert());
    let mut tasks = Vec::new();
    for writer in 0..writers {
        let mut connection = PgConnection::connect_with(&db.options()).await.expect("a connection");
        let (counting, stop) = (Arc::clone(&counting), Arc::clone(&stop));
        let (commits, notified) = (Arc::clone(&commits), Arc::clone(&notified));
        let statement = Arc::clone(&statement);
        tasks.push(tokio::spawn(async move {
            for n in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let insert = sqlx::query_scalar::<_, i64>(AssertSqlSafe(Arc::clone(&statement)));
                let told = insert.bind(format!("{writer}-{n}")).fetch_one(&mut connection).await.expect("an insert");
                if tells == Tells::IfAsleep {
                    notified.fetch_add(told.unsigned_abs(), Ordering::Relaxed);
                }
                commits.fetch_add(u64::from(counting.load(Ordering::Relaxed)), Ordering::Relaxed);
            }
            let _ = connection.close().await;
        }));
    }
    tokio::time::sleep(WARM_UP).await;
    let started = Instant::now();
    counting.store(true, Ordering::Relaxed);
    tokio::time::sleep(time).await;
    counting.store(false, Ordering::Relaxed);
    let exact = time.as_secs_f64() / started.elapsed().as_secs_f64();
    let counted = commits.load(Ordering::Relaxed) as f64 * exact;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("a writer");
    }
    (counted as u64, notified.load(Ordering::Relaxed))
}

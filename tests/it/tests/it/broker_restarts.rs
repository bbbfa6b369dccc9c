//! The broker is away: at the start, in the middle, again and again.

use std::time::{Duration, Instant};

use outbox::handlers;
use outbox_it::{OwnBroker, TestDatabase, eventually};

use crate::producing::rows;
use crate::world::{builder, enqueue, no_doubles, prepare, settled};

const DRAINED: Duration = Duration::from_secs(10);

async fn database() -> TestDatabase {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    db
}

/// F04: amqp-rs/lapin#450 (never again after a restart), #468 (hangs when the broker is not yet up); dotnetcore/CAP#533; jhalterman/lyra#52.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_runtime_starts_without_its_broker_and_drains_when_it_comes() {
    let mut broker = OwnBroker::start().await;
    broker.kill().await;
    let db = database().await;
    let began = Instant::now();
    let runtime = builder(db.url(), &broker.url(), handlers![crate::world::reserve_stock]).start().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "start() waited for the broker: {:?}", began.elapsed());
    let down = async |what: &str| {
        eventually(DRAINED, what, async || {
            let health = runtime.health();
            let publisher = health.component("broker publisher");
            !health.ready && publisher.is_some_and(|part| !part.up && part.error.is_some())
        })
        .await;
    };
    down("health says that the broker is down").await;
    let began = Instant::now();
    enqueue(&db, 0, 100).await;
    assert!(began.elapsed() < Duration::from_secs(3), "enqueue waited for the broker: {:?}", began.elapsed());
    // Nothing is claimed and nothing is spent meanwhile.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        db.count("outbox_messages", "status = 'Pending' AND attempt_count = 0 AND last_error IS NULL").await,
        100
    );
    broker.start_again().await;
    let back = Instant::now();
    settled(&db, 100, DRAINED).await;
    println!("drained {:?} after the broker came", back.elapsed());
    eventually(DRAINED, "ready", async || runtime.health().ready).await;

    // Under load, in every way that a broker goes away.
    let mut orders = 100;
    for round in 0..4 {
        enqueue(&db, orders, orders + 100).await;
        match round {
            0 => broker.restart().await,
            1 => {
                broker.kill().await;
                down("health says that the broker was killed").await;
                enqueue(&db, orders + 100, orders + 200).await;
                orders += 100;
                broker.start_again().await;
            }
            2 => {
                broker.stop_app().await;
                enqueue(&db, orders + 100, orders + 200).await;
                orders += 100;
                broker.start_app().await;
            }
            _ => broker.restart().await,
        }
        orders += 100;
        let back = Instant::now();
        settled(&db, orders, DRAINED).await;
        println!("round {round}: drained {:?} after the broker came back", back.elapsed());
    }
    rows(&db, "status = 'Published'", orders, DRAINED).await;
    assert_eq!(db.count("outbox_messages", "attempt_count > 0").await, 0, "a lost broker spends nothing");
    runtime.shutdown().await;
    no_doubles(&db).await;
}

/// F38: dotnetcore/CAP#730 (10,001 published, 9,853 received after restarts); MassTransit/MassTransit#2060.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_restarts_under_load_lose_nothing_and_double_nothing() {
    const EVENTS: usize = 4_000;
    let mut broker = OwnBroker::start().await;
    let db = database().await;
    let runtime = builder(db.url(), &broker.url(), handlers![crate::world::reserve_stock])
        .relay_limits(100, 16 << 20)
        .start()
        .await
        .unwrap();
    eventually(Duration::from_secs(20), "ready", async || runtime.health().ready).await;
    // A node that is killed within half a second of a quorum queue's declaration forgets to start its leader (3.10: `ra_directory` is saved
    // every 500 ms). That is the broker's fault to test.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let done = async || db.number("SELECT count(DISTINCT order_id) FROM effects").await;
    let load = async {
        for n in 0..EVENTS / 20 {
            enqueue(&db, n * 20, n * 20 + 20).await;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    };
    let restarts = async {
        for round in 0..5 {
            // In the middle of the work, wherever that is.
            let (from, want) = (Instant::now(), (done().await + 200).min(i64::try_from(EVENTS).unwrap()));
            while done().await < want {
                assert!(
                    from.elapsed() < Duration::from_secs(30),
                    "round {round}: {}: {}",
                    done().await,
                    runtime.health()
                );
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            println!("round {round} after {:?}", from.elapsed());
            if round % 3 == 0 {
                broker.kill().await;
                broker.start_again().await;
            } else {
                broker.restart().await;
            }
        }
    };
    tokio::join!(load, restarts);
    settled(&db, EVENTS, Duration::from_secs(60)).await;
    rows(&db, "status = 'Published'", EVENTS, Duration::from_secs(20)).await;
    assert_eq!(db.number("SELECT count(*) FROM effects").await, i64::try_from(EVENTS).unwrap());
    let twice = db.number("SELECT count(*) FROM inbox_messages").await;
    assert_eq!(twice, i64::try_from(EVENTS).unwrap());
    tokio::time::timeout(Duration::from_secs(20), runtime.idle()).await.expect("idle");
    runtime.shutdown().await;
    no_doubles(&db).await;
}

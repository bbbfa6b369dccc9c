//! F49: cleaning up beside everything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use outbox::Store;
use outbox_it::{Logs, eventually};
use sqlx::Postgres;

use crate::scripted::{Act, Script, parked, quick, runtime};
use crate::world::World;

/// F49: retention every few milliseconds from three places, beside settles, inbox inserts, parked runs and start-ups: no deadlock surfaces, nothing is
/// lost or doubled.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_retention_beside_everything_else_never_deadlocks() {
    let logs = Logs::capture();
    let world = World::new().await;
    world.db.execute(&format!("ALTER DATABASE {} SET deadlock_timeout = '20ms'", world.db.name())).await;
    let script =
        Script::new(|order, run| if order.ends_with('3') && run <= 2 { Act::Fail("not yet") } else { Act::Done });
    let start = async || {
        let builder =
            runtime(&world, &script, quick().concurrency(8)).retention(outbox::Retention::keep(Duration::ZERO));
        builder.fail_fast(true).start().await.unwrap()
    };
    let (one, two) = (start().await, start().await);
    let stop = Arc::new(AtomicBool::new(false));
    let purged = Arc::new(AtomicU64::new(0));
    let pool = world.db.pool_of(6);
    let mut cleaners = Vec::new();
    for limit in [3, 17, 200] {
        let (stop, purged, pool) = (Arc::clone(&stop), Arc::clone(&purged), pool.clone());
        cleaners.push(tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let mut connection = pool.acquire().await.unwrap();
                let count = Postgres::purge_published(&mut connection, Duration::ZERO, limit).await.expect("purge");
                purged.fetch_add(count, Ordering::SeqCst);
                Postgres::put_back_expired(&mut connection, 100).await.expect("sweep");
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }));
    }
    let starter = {
        let (stop, pool) = (Arc::clone(&stop), pool.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                outbox::migrate(&pool).await.expect("a start-up's migration");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    };
    let begun = std::time::Instant::now();
    let mut orders = 0;
    while begun.elapsed() < Duration::from_secs(15) {
        world.enqueue(orders, orders + 50).await;
        orders += 50;
        if orders % 1000 == 0 {
            start().await.shutdown().await;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    world.settled(orders, Duration::from_secs(60)).await;
    eventually(Duration::from_secs(30), "nothing is parked", async || parked(&world.db).await.is_empty()).await;
    eventually(Duration::from_secs(30), "all is cleaned up", async || {
        world.db.count("outbox_messages", "true").await == 0
    })
    .await;
    stop.store(true, Ordering::SeqCst);
    for task in cleaners.into_iter().chain([starter]) {
        task.await.expect("no error surfaced");
    }
    assert!(purged.load(Ordering::SeqCst) > 0);
    for told in ["40P01", "deadlock detected"] {
        assert!(logs.with(&[told]).is_empty(), "{:#?}", logs.with(&[told]));
    }
    one.shutdown().await;
    two.shutdown().await;
}

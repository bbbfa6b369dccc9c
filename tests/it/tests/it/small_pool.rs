//! F23: a pool with fewer connections than handlers.

use std::time::{Duration, Instant};

use outbox::{BoxError, ConsumerOptions, State, handler, handlers};
use outbox_it::Logs;
use sqlx::PgConnection;
use sqlx::postgres::{PgPool, PgPoolOptions};

use crate::scripted::{Act, Script, parked, quick, runtime_at};
use crate::world::{OrderCreated, World, builder, effect};

const SOON: Duration = Duration::from_secs(60);

#[handler(consumer = "greedy", concurrency = 20, retry(immediate = 1, delays = "100ms..200ms", max_attempts = 2))]
async fn greedy(order: OrderCreated, pool: State<PgPool>, db: &mut PgConnection) -> Result<(), BoxError> {
    effect(db, "greedy", &order.order_id).await?;
    // Everybody has one by then.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut second = pool.acquire().await?;
    sqlx::query("SELECT pg_sleep(0.01)").execute(&mut *second).await?;
    Ok(())
}

/// F23: transact-rs/sqlx#2276, #3241, #865; oban-bg/oban#364 (20 jobs, a pool of 10, all stuck): five connections, twenty handlers, each of which takes a
/// second connection from the same pool. The start warns; nothing deadlocks, nothing is spent, no false alarm is raised, and the relay goes on.
#[tokio::test(flavor = "multi_thread")]
async fn handlers_that_take_a_second_connection_from_a_small_pool_do_not_starve_each_other() {
    let logs = Logs::capture();
    let world = World::new().await;
    for size in [5, 20] {
        world.db.execute("TRUNCATE effects, outbox_messages, inbox_messages").await;
        let pool = PgPoolOptions::new()
            .max_connections(size)
            .acquire_timeout(Duration::from_secs(3))
            .connect(&world.db.url())
            .await
            .unwrap();
        let runtime = builder("", world.vhost.url(), handlers![greedy])
            .database(&pool)
            .state(pool.clone())
            .start()
            .await
            .unwrap();
        logs.assert_present(&[
            "WARN",
            "the pool is small for its handlers",
            &format!("pool={size}"),
            "handlers=20",
            "22 connections",
        ]);
        let began = Instant::now();
        world.enqueue(0, 200).await;
        world.settled(200, SOON).await;
        println!("200 events, two connections each, a pool of {size}: {:?}", began.elapsed());
        tokio::time::timeout(SOON, runtime.idle()).await.expect("idle");
        assert!(parked(&world.db).await.is_empty(), "{:?}", parked(&world.db).await);
        for alarm in ["lost or read-only", "a run failed", "pool timed out"] {
            assert!(logs.with(&[alarm]).is_empty(), "{:?}", logs.with(&[alarm]));
        }
        runtime.shutdown().await;
        pool.close().await;
    }
}

/// F23: handlers that take longer than the pool's own patience keep the others waiting, not failing: a busy pool is no lost database. The relay publishes
/// meanwhile, since its connections are its own.
#[tokio::test(flavor = "multi_thread")]
async fn slow_handlers_on_a_small_pool_keep_the_others_waiting_and_not_failing() {
    let logs = Logs::capture();
    let world = World::new().await;
    let pool = PgPoolOptions::new()
        .max_connections(5)
        .acquire_timeout(Duration::from_millis(700))
        .connect(&world.db.url())
        .await
        .unwrap();
    let script = Script::new(|_, _| Act::sleep(1_500));
    let options: ConsumerOptions = quick().concurrency(20);
    let runtime = runtime_at("", world.vhost.url(), &script, options).database(&pool).start().await.unwrap();
    world.enqueue(0, 12).await;
    crate::producing::rows(&world.db, "status = 'Published'", 12, Duration::from_secs(5)).await;
    world.settled(12, SOON).await;
    assert_eq!(script.runs().len(), 12, "each ran once");
    assert!(runtime.health().ready, "{}", runtime.health());
    assert!(logs.with(&["lost or read-only"]).is_empty(), "{:?}", logs.with(&["lost or read-only"]));
    // Those that wait for their turn do not hold up a shutdown; nothing of them is spent.
    world.enqueue(12, 32).await;
    outbox_it::eventually(SOON, "three run", async || script.runs().len() == 15).await;
    let began = Instant::now();
    runtime.shutdown().await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(world.db.count("effects", "true").await, 15, "what had begun is done, and nothing else");
    assert!(parked(&world.db).await.is_empty());
}

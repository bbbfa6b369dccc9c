//! F19: callers and handlers that are dropped in the middle of a statement.

use std::time::Duration;

use outbox_it::{Mode, Proxy, TestDatabase, eventually};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::scripted::{Act, Script, quick, runtime_at};
use crate::world::{OrderCreated, World, no_doubles, settled};

const SOON: Duration = Duration::from_secs(30);

/// Begins as the documentation tells: a cancelled `begin` would leave its transaction open on the pooled connection (sqlx 0.9.0).
async fn begin(pool: &PgPool) -> sqlx::Result<sqlx::Transaction<'static, sqlx::Postgres>> {
    let pool = pool.clone();
    tokio::spawn(async move { pool.begin().await }).await.expect("the task")
}

/// F19: a pool of two behind a slow network, callers that give up around `enqueue` and `commit`, handlers that are timed out: afterwards a hundred plain
/// enqueues are all visible to others, no session is left in a transaction, and no event is half there.
#[tokio::test(flavor = "multi_thread")]
async fn callers_and_handlers_that_are_cancelled_leave_nothing_behind() {
    let world = World::new().await;
    let (proxy, url) = Proxy::for_url(&world.db.url()).await;
    let pool =
        PgPoolOptions::new().max_connections(2).acquire_timeout(Duration::from_secs(20)).connect(&url).await.unwrap();
    let script = Script::new(|_, run| if run == 1 { Act::sql("SELECT pg_sleep(3)") } else { Act::Done });
    let options = quick().concurrency(2).timeout(Duration::from_millis(400));
    let runtime = runtime_at("", world.vhost.url(), &script, options).database(&pool).start().await.unwrap();
    proxy.set(Mode::Delay(Duration::from_millis(10)));
    let mut tasks = Vec::new();
    for n in 0..150_u64 {
        let pool = pool.clone();
        tasks.push(tokio::spawn(async move {
            let caller = async {
                let mut tx = begin(&pool).await?;
                OrderCreated::number(5000 + usize::try_from(n).unwrap())
                    .enqueue(&mut tx)
                    .await
                    .map_err(sqlx::Error::decode)?;
                sqlx::query("SELECT 1").execute(&mut *tx).await?;
                tx.commit().await
            };
            let _ = tokio::time::timeout(Duration::from_millis(20 + n % 90), caller).await;
        }));
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    proxy.set(Mode::Pass);
    for n in 0..100 {
        let mut tx = begin(&pool).await.unwrap();
        OrderCreated::number(n).enqueue(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(seen(&world.db, n).await, 1, "enqueue {n} is visible to another session");
    }
    let hundred = "order_id < 'order-000100'";
    eventually(Duration::from_secs(90), "all hundred have an effect", async || {
        world.db.count("effects", hundred).await == 100
    })
    .await;
    tokio::time::timeout(SOON, runtime.idle()).await.expect("idle");
    // What was cancelled is there as a whole or not at all.
    let events = usize::try_from(world.db.count("outbox_messages", "true").await).unwrap();
    settled(&world.db, events, SOON).await;
    no_doubles(&world.db).await;
    assert_eq!(world.db.idle_in_transaction(Duration::from_secs(1)).await, 0);
    runtime.shutdown().await;
}

async fn seen(db: &TestDatabase, order: usize) -> i64 {
    db.count("outbox_messages", &format!("aggregate_id = '{}'", OrderCreated::number(order).order_id)).await
}

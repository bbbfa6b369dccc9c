//! C4: a database that is lost or read-only pauses the consumer; nothing is spent.

use std::time::Duration;

use outbox_it::{OwnPostgres, Proxy, TestVhost, eventually};

use crate::parked_retry::copy_of;
use crate::scripted::{Act, Script, parked, quick, runtime, runtime_at};
use crate::world::{World, enqueue, no_doubles, prepare, settled};

const SOON: Duration = Duration::from_secs(30);

fn unspent(script: &Script) {
    let spent: Vec<_> = script.runs().into_iter().filter(|seen| seen.attempt != 1).collect();
    assert!(spent.is_empty(), "attempts were spent: {spent:?}");
}

/// C4: the connection is cut in the middle of handlers, twice: they run again, nobody's attempt is spent, no effect doubles.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_in_the_middle_of_handlers_spends_nothing() {
    let world = World::new().await;
    let (proxy, url) = Proxy::for_url(&world.db.url()).await;
    let script = Script::new(|_, _| Act::Sleep(Duration::from_millis(400), Box::new(Act::sql("SELECT 1"))));
    let runtime = runtime_at(&url, world.vhost.url(), &script, quick().concurrency(8)).start().await.unwrap();
    world.enqueue(0, 40).await;
    for runs in [4, 20] {
        eventually(SOON, "handlers run", async || script.runs().len() >= runs).await;
        proxy.reset_all();
    }
    world.settled(40, SOON).await;
    assert!(script.runs().len() > 40, "some ran again");
    unspent(&script);
    assert!(parked(&world.db).await.is_empty());
    runtime.shutdown().await;
}

/// C4: a database that is gone for seconds: deliveries are held, `health()` says so, and all goes on when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_stopped_database_holds_deliveries_and_spends_nothing() {
    let (mut server, vhost) = tokio::join!(OwnPostgres::start(&[]), TestVhost::new());
    let db = server.database().await;
    prepare(&db).await;
    let script = Script::new(|_, _| Act::Sleep(Duration::from_millis(100), Box::new(Act::sql("SELECT 1"))));
    let runtime = runtime_at(&db.url(), vhost.url(), &script, quick().concurrency(8)).start().await.unwrap();
    enqueue(&db, 0, 100).await;
    for round in 1..=2_usize {
        eventually(SOON, "handlers run", async || script.runs().len() >= round * 20).await;
        if round == 1 {
            server.stop().await;
        } else {
            server.kill().await;
        }
        let down = async || runtime.health().component("consumer database").is_some_and(|part| !part.up);
        eventually(SOON, "health tells it", down).await;
        let during = script.runs().len();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(script.runs().len() <= during + 8, "nothing begins while the database is away");
        server.start_again().await;
    }
    settled(&db, 100, Duration::from_secs(60)).await;
    eventually(SOON, "health tells it", async || runtime.health().ready).await;
    unspent(&script);
    assert!(parked(&db).await.is_empty());
    runtime.shutdown().await;
}

/// C4: a read-only database (a failover, a full disk's emergency switch) pauses the consumer; a parked message that falls due meanwhile keeps its
/// attempts too.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_database_pauses_the_consumer_and_spends_nothing() {
    let world = World::new().await;
    let script = Script::new(|order, run| match (order, run) {
        ("order-000099", 1) => Act::Return(outbox::Outcome::RetryAfter(Duration::from_secs(2))),
        _ => Act::sleep(20),
    });
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    let wire = world.wire().await;
    eventually(SOON, "the queue is there", async || wire.ready("scripted").await.is_some()).await;
    wire.publish_all("", "scripted", [copy_of(99, "parked")]).await;
    eventually(SOON, "one is parked", async || parked(&world.db).await.len() == 1).await;
    let admin = world.db.pool_of(1);
    let set = async |value: &str| {
        let on_database = format!("ALTER DATABASE {} SET default_transaction_read_only = {value}", world.db.name());
        for sql in ["SET default_transaction_read_only = off", &on_database] {
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&admin).await.unwrap();
        }
    };
    set("on").await;
    world.db.terminate_sessions().await;
    wire.publish_all("", "scripted", (0..20).map(|n| copy_of(n, &format!("read-only-{n}")))).await;
    let down = async || runtime.health().component("consumer database").is_some_and(|part| !part.up);
    eventually(SOON, "health tells it", down).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(script.runs().len(), 1, "nothing runs");
    set("off").await;
    world.settled(21, SOON).await;
    let again = script.runs_of(99);
    assert_eq!(again.iter().map(|seen| seen.attempt).collect::<Vec<_>>(), [1, 2]);
    assert!(script.runs().iter().all(|seen| seen.order == "order-000099" || seen.attempt == 1));
    assert!(parked(&world.db).await.is_empty());
    no_doubles(&world.db).await;
    runtime.shutdown().await;
}

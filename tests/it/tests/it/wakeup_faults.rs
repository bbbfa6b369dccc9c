//! R5 when the listener's connection is lost: it listens again, and looks for what it missed.

use std::time::{Duration, Instant};

use outbox_it::{Mode, OwnPostgres, Proxy, TestDatabase, TestVhost, eventually};

use crate::meter::Meter;
use crate::wakeup::{AT_ONCE, FLOOR, SOON, asleep, fast_asleep, foreign, published, routable, sleeper};
use crate::world::{World, builder, prepare};

const LISTENER: &str = "application_name = 'outbox listener'";

async fn listeners(db: &TestDatabase) -> i64 {
    db.sessions(LISTENER).await
}

async fn terminate_listener(db: &TestDatabase) -> i64 {
    db.number(&format!(
        "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND {LISTENER}"
    ))
    .await
}

/// transact-rs/sqlx#4014: a listener whose backend was terminated returns an error and stays dead. 20 times: what is committed while nobody
/// listens is found by the next listener, and every fifth time a sleeping relay is woken as before.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_terminated_listener_listens_again() {
    let world = World::new().await;
    routable(&world.vhost).await;
    let relay = sleeper(&world).start().await.unwrap();
    asleep(&world.db).await;
    for round in 0..20 {
        eventually(SOON, "one listener", async || listeners(&world.db).await == 1).await;
        assert_eq!(terminate_listener(&world.db).await, 1);
        let id = format!("lost-{round}");
        let took = published(&world.db, &format!("foreign-{id}"), foreign(&world.db, &id).await).await;
        assert!(took < Duration::from_secs(5), "round {round}: {took:?}");
        if round % 5 == 4 {
            fast_asleep(&world.db).await;
            let id = format!("woken-{round}");
            let took = published(&world.db, &format!("foreign-{id}"), foreign(&world.db, &id).await).await;
            assert!(took < AT_ONCE, "round {round}: {took:?}");
        }
    }
    assert!(relay.health().ready);
    assert_eq!(listeners(&world.db).await, 1, "and no connection was left behind");
    relay.shutdown().await;
    eventually(SOON, "it goes with the runtime", async || listeners(&world.db).await == 0).await;
}

/// A link of which one end is gone looks like a quiet one: the listener finds out by itself.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_listener_whose_link_is_half_open_listens_again() {
    let meter = Meter::install();
    let world = World::new().await;
    routable(&world.vhost).await;
    let (proxy, url) = Proxy::for_url(&world.db.url()).await;
    let relay = sleeper(&world).listen_url(url).start().await.unwrap();
    asleep(&world.db).await;
    proxy.set(Mode::BlackHole(outbox_it::Way::Both));
    let gone = Instant::now();
    // The next trial, 15 s later at most, and 5 s for it to arrive.
    let gauge = async || meter.gauge("outbox_listening", "");
    eventually(Duration::from_secs(30), "it is found out", async || gauge().await == Some(0.0)).await;
    println!("found out after {:?}", gone.elapsed());
    proxy.set(Mode::Pass);
    eventually(Duration::from_secs(60), "it listens again", async || gauge().await == Some(1.0)).await;
    fast_asleep(&world.db).await;
    let took = published(&world.db, "foreign-after", foreign(&world.db, "after").await).await;
    assert!(took < AT_ONCE, "{took:?}");
    relay.shutdown().await;
}

/// The server restarts, in order and by a crash: listener and relay come back.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_restarted_server_is_listened_to_again() {
    let mut postgres = OwnPostgres::start(&[]).await;
    let db = postgres.database().await;
    let vhost = TestVhost::new().await;
    prepare(&db).await;
    routable(&vhost).await;
    let relay =
        builder(db.url(), vhost.url(), []).role(outbox::Role::Relay).poll_interval(FLOOR).start().await.unwrap();
    fast_asleep(&db).await;
    for (round, crash) in [false, true].into_iter().enumerate() {
        if crash {
            postgres.kill().await;
            postgres.start_again().await;
        } else {
            postgres.restart().await;
        }
        eventually(SOON * 2, "one listener", async || {
            let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE {LISTENER}");
            sqlx::query_scalar::<_, i64>(sqlx::AssertSqlSafe(sql)).fetch_one(db.pool()).await.is_ok_and(|n| n == 1)
        })
        .await;
        let id = format!("missed-{round}");
        let took = published(&db, &format!("foreign-{id}"), foreign(&db, &id).await).await;
        assert!(took < Duration::from_secs(10), "{took:?}");
        fast_asleep(&db).await;
        let id = format!("woken-{round}");
        let took = published(&db, &format!("foreign-{id}"), foreign(&db, &id).await).await;
        assert!(took < AT_ONCE, "{took:?}");
    }
    relay.shutdown().await;
}

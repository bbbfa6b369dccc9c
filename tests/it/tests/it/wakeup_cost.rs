//! What R5 costs (F41: a NOTIFY in each transaction makes all commits wait for each other): nobody notifies unless a relay sleeps, and one that sleeps asks for little.

use std::time::{Duration, Instant};

use outbox::EnqueueError;
use outbox_it::{OwnPostgres, TestDatabase, TestVhost, eventually};
use outbox_runtime::Store;
use sqlx::{Connection as _, PgConnection, Postgres};

use crate::producing::{commit, rows};
use crate::wakeup::{FLOOR, Notifications, SOON, announced, asleep, insert, routable, sleeper};
use crate::world::{OrderCreated, World, builder, prepare};

/// 500 commits while the relay is awake: no notification. Then one when it sleeps, which shows that they are counted.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_notifies_a_relay_that_is_awake() {
    let world = World::new().await;
    routable(&world.vhost).await;
    let mut notifications = Notifications::of(&world.db).await;
    let relay = sleeper(&world).start().await.unwrap();
    let mut connection = PgConnection::connect_with(&world.db.options()).await.unwrap();
    for n in 0..500 {
        insert(&mut connection, &n.to_string()).await;
    }
    rows(&world.db, "status = 'Published'", 500, SOON).await;
    assert_eq!(notifications.count().await, 0, "awake");
    asleep(&world.db).await;
    insert(&mut connection, "last").await;
    rows(&world.db, "status = 'Published'", 501, SOON).await;
    assert_eq!(notifications.count().await, 1, "asleep");
    relay.shutdown().await;
}

/// What enqueue's own statements notify: once for a statement, at the commit, and only while somebody sleeps.
#[tokio::test]
async fn an_enqueue_notifies_once_and_only_while_relays_sleep() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    let mut notifications = Notifications::of(&db).await;
    commit(&db, (0..3).map(|n| OrderCreated::number(n).draft())).await;
    assert_eq!(notifications.count().await, 0, "there is no relay");

    let mut connection = PgConnection::connect_with(&db.options()).await.unwrap();
    <Postgres as Store>::announce_sleep(&mut connection, FLOOR).await.unwrap();
    for events in [1, 2, 500] {
        commit(&db, (0..events).map(|n| OrderCreated::number(n).draft())).await;
        assert_eq!(notifications.count().await, 1, "one statement with {events} events");
    }
    let mut tx = db.pool().begin().await.unwrap();
    OrderCreated::number(0).enqueue(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(notifications.count().await, 0, "nothing was committed");

    // The clause does not get in the way of the answer about repeated ids.
    let mut tx = db.pool().begin().await.unwrap();
    let options = || outbox::Enqueue::new().event_id("twice");
    OrderCreated::number(0).enqueue_with(&mut tx, options()).await.unwrap();
    let again = OrderCreated::number(0).enqueue_with(&mut tx, options()).await;
    assert!(matches!(again, Err(EnqueueError::Duplicate { .. })), "{again:?}");
    tx.commit().await.unwrap();
    assert_eq!(notifications.count().await, 1);

    <Postgres as Store>::withdraw_sleep(&mut connection).await.unwrap();
    commit(&db, [OrderCreated::number(9).draft()]).await;
    assert_eq!(notifications.count().await, 0, "awake again");
}

/// R1: the flush is waived for the statement alone. And nobody waits for a row that somebody holds.
#[tokio::test]
async fn an_announcement_leaks_nothing_and_waits_for_nobody() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    let mut connection = PgConnection::connect_with(&db.options()).await.unwrap();
    let flushed = async |connection: &mut PgConnection| {
        let value: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(connection).await.unwrap();
        assert_eq!(value, "on");
    };
    <Postgres as Store>::announce_sleep(&mut connection, FLOOR).await.unwrap();
    flushed(&mut connection).await;
    assert!(announced(&db).await);
    <Postgres as Store>::say_routed(&mut connection, "me").await.unwrap();
    flushed(&mut connection).await;
    <Postgres as Store>::withdraw_sleep(&mut connection).await.unwrap();
    flushed(&mut connection).await;
    assert!(!announced(&db).await);

    // Of many relays one writes: an announcement that lasts is left alone.
    <Postgres as Store>::announce_sleep(&mut connection, FLOOR).await.unwrap();
    let version = "SELECT xmin::text::bigint FROM outbox_wakeup";
    let first = db.number(version).await;
    <Postgres as Store>::announce_sleep(&mut connection, FLOOR).await.unwrap();
    assert_eq!(db.number(version).await, first);

    let mut holder = db.pool().begin().await.unwrap();
    sqlx::query("SELECT FROM outbox_wakeup FOR UPDATE").execute(&mut *holder).await.unwrap();
    let started = Instant::now();
    <Postgres as Store>::withdraw_sleep(&mut connection).await.unwrap();
    <Postgres as Store>::announce_sleep(&mut connection, FLOOR * 10).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert!(announced(&db).await, "as it was");
    holder.rollback().await.unwrap();
}

/// Of two relays the one that finds less falls asleep beside the other: a few notifications a second, not one for each event. So few events
/// that each relay now and then misses all of a second.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_relay_that_sleeps_beside_a_busy_one_costs_little() {
    const EVENTS: usize = 100;
    let world = World::new().await;
    routable(&world.vhost).await;
    let mut notifications = Notifications::of(&world.db).await;
    let one = sleeper(&world).instance("one").start().await.unwrap();
    let two = sleeper(&world).instance("two").start().await.unwrap();
    let mut connection = PgConnection::connect_with(&world.db.options()).await.unwrap();
    let started = Instant::now();
    for n in 0..EVENTS {
        insert(&mut connection, &n.to_string()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    rows(&world.db, "status = 'Published'", EVENTS, SOON).await;
    let count = notifications.count().await;
    println!("{count} notifications for {EVENTS} events in {seconds:.1} s");
    assert!(count as f64 <= 4.0 * seconds, "{count} notifications in {seconds:.1} s");
    one.shutdown().await;
    two.shutdown().await;
}

/// While its broker is away a relay scans nothing: the first event wakes it, the others are silent.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_relay_without_its_broker_is_not_told_of_each_event() {
    let world = World::new().await;
    routable(&world.vhost).await;
    let (proxy, url) = outbox_it::Proxy::for_url(world.vhost.url()).await;
    let relay = builder(world.db.url(), &url, []).role(outbox::Role::Relay).poll_interval(Duration::from_secs(1));
    let relay = relay.start().await.unwrap();
    asleep(&world.db).await;
    proxy.set(outbox_it::Mode::Refuse);
    proxy.reset_all();
    eventually(SOON, "the broker is gone", async || {
        relay.health().component("broker publisher").is_some_and(|part| !part.up)
    })
    .await;
    // It comes back from its pause and waits for the broker.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut notifications = Notifications::of(&world.db).await;
    let mut connection = PgConnection::connect_with(&world.db.options()).await.unwrap();
    for n in 0..100 {
        insert(&mut connection, &n.to_string()).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let count = notifications.count().await;
    assert!(count <= 5, "{count} notifications for 100 events");
    proxy.set(outbox_it::Mode::Pass);
    rows(&world.db, "status = 'Published'", 100, SOON * 2).await;
    relay.shutdown().await;
}

/// What a sleeping relay sends: the look at each poll interval, the announcement now and then, and what is done at intervals anyway.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_sleeping_relay_sends_few_statements() {
    let postgres = OwnPostgres::start(&[("shared_preload_libraries", "pg_stat_statements")]).await;
    let db = postgres.database().await;
    let vhost = TestVhost::new().await;
    prepare(&db).await;
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    routable(&vhost).await;
    let relay = builder(db.url(), vhost.url(), []).role(outbox::Role::Relay).poll_interval(Duration::from_secs(1));
    let relay = relay.start().await.unwrap();
    asleep(&db).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    db.execute("SELECT pg_stat_statements_reset()").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let calls = async |pattern: &str| {
        db.number(&format!(
            "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
             WHERE d.datname = current_database() AND query ~ '{pattern}' AND query !~ 'pg_stat_statements'"
        ))
        .await
    };
    let (all, claims) = (calls(".").await, calls("locked_until = CASE WHEN moves.place").await);
    let (announcements, trials) = (calls("SET asleep_until").await, calls("pg_notify").await);
    println!(
        "in 20 s: {all} statements, of them {claims} claims, {announcements} announcements, {trials} trials of the listener"
    );
    assert!((15..=22).contains(&claims), "{claims} claims in 20 s");
    assert!((1..=3).contains(&announcements), "{announcements} announcements in 20 s");
    assert!((1..=2).contains(&trials), "{trials} trials in 20 s");
    // Beside these 24: put back and the sweep of the lines every 2 s (20), figures every 5 s in a transaction of their own (24), those of vacuum,
    // retention every 30 s; and what the driver asks once.
    assert!(all <= 78, "{all} statements in 20 s");
    relay.shutdown().await;
}

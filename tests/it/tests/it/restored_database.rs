//! F40: what other relays find by the numbers of transactions is found by its state here.

use std::process::Command;
use std::time::{Duration, Instant};

use outbox::{Role, handlers};
use outbox_it::own_postgres::binary;
use outbox_it::{OwnPostgres, TestDatabase, TestVhost, eventually};
use sqlx::{Connection as _, PgConnection};

use crate::producing::{commit, relay, rows, take, tally, tap};
use crate::world::{OrderCreated, World, builder, prepare, settled};

const SOON: Duration = Duration::from_secs(30);

async fn run(program: &'static str, args: Vec<String>) {
    let run = move || Command::new(binary(program)).args(args).output().unwrap();
    let out = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(out.status.success(), "{program}: {}", String::from_utf8_lossy(&out.stderr));
}

fn order(n: usize) -> outbox::Draft {
    OrderCreated::number(n).draft()
}

/// F40: ThreeDotsLabs/watermill#576 (after a dump and restore the new transactions have smaller numbers, and nothing is consumed any more),
/// eugene-khyst/postgresql-event-sourcing#16: a dump with 50 pending rows, and 10 that a relay had, into a fresh server; all of them and all new ones
/// are sent, and what was handled is not handled again.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_database_restored_into_a_fresh_server_goes_on_where_it_was() {
    let ((server, vhost), old) = tokio::join!(
        async { tokio::join!(OwnPostgres::start(&[("fsync", "off")]), TestVhost::new()) },
        TestDatabase::new()
    );
    prepare(&old).await;
    let wire = vhost.wire().await;
    let both = builder(old.url(), vhost.url(), handlers![crate::world::reserve_stock]).start().await.unwrap();
    commit(&old, (0..20).map(order)).await;
    settled(&old, 20, SOON).await;
    both.idle().await;
    both.shutdown().await;
    commit(&old, (20..80).map(order)).await;
    old.execute(
        "UPDATE outbox_messages SET status = 'Processing', locked_by = 'gone:1', locked_until = now() + interval '3 s'
         WHERE event_id IN (SELECT event_id FROM outbox_messages WHERE status = 'Pending' ORDER BY event_id LIMIT 10)",
    )
    .await;
    assert_eq!(old.count("outbox_messages", "status = 'Pending'").await, 50);

    let new = server.database().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dump.sql").display().to_string();
    run("pg_dump", vec!["--no-owner".into(), "--file".into(), file.clone(), old.url()]).await;
    run("psql", vec!["-X".into(), "-q".into(), "-v".into(), "ON_ERROR_STOP=1".into(), "-f".into(), file, new.url()])
        .await;
    let number = "SELECT txid_current()";
    let (before, after) = (old.number(number).await, new.number(number).await);
    assert!(after < before, "the fresh server must be younger: {after}, {before}");

    tap(&wire, "copies", "orders.events", "#").await;
    let runtime = builder(new.url(), vhost.url(), handlers![crate::world::reserve_stock])
        .lease(Duration::from_secs(4), Duration::from_secs(2))
        .start()
        .await
        .unwrap();
    commit(&new, (80..130).map(order)).await;
    rows(&new, "status = 'Published'", 130, SOON).await;
    settled(&new, 130, SOON).await;
    let copies = take(&wire, "copies", 110).await;
    assert_eq!((tally(&copies).len(), copies.len()), (110, 110), "what was published before is not published again");
    runtime.shutdown().await;
}

/// F40: one `SELECT txid_current()` that is open for long, and an event whose transaction commits after all later ones: neither holds up the others, and
/// the late one is sent as soon as it is there.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_holds_up_nobody_and_a_late_commit_is_sent() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "copies", "orders.events", "#").await;
    let mut idle = PgConnection::connect(&world.db.url()).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT txid_current()").execute(&mut idle).await.unwrap();
    let mut late = world.db.pool().begin().await.unwrap();
    OrderCreated::number(0).enqueue(&mut late).await.unwrap();

    let runtimes =
        [relay(&world).start().await.unwrap(), relay(&world).role(Role::Relay).instance("two").start().await.unwrap()];
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    let mut sent = 0;
    while began.elapsed() < Duration::from_secs(8) {
        let enqueued = Instant::now();
        commit(&world.db, (sent + 1..sent + 11).map(order)).await;
        sent += 10;
        rows(&world.db, "status = 'Published'", sent, Duration::from_secs(5)).await;
        slowest = slowest.max(enqueued.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("{sent} events while it was open, the slowest ten took {slowest:?}");
    late.commit().await.unwrap();
    rows(&world.db, "status = 'Published'", sent + 1, Duration::from_secs(5)).await;
    assert_eq!(take(&wire, "copies", sent + 1).await.len(), sent + 1, "each was sent once");
    eventually(SOON, "it was open all the time", async || {
        world.db.idle_in_transaction(Duration::from_secs(8)).await == 1
    })
    .await;
    for runtime in runtimes {
        runtime.shutdown().await;
    }
}

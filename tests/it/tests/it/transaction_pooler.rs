//! F22, F46: a pooler between the service and the server.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outbox::{Role, RuntimeBuilder, handlers};
use outbox_it::{Logs, OwnPgbouncer, Process, TestDatabase, TestVhost, eventually, eventually_value};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, PgConnection};

use crate::producing::{commit, rows, take, tap};
use crate::scripted::{Act, Script, parked, quick, runtime_at};
use crate::world::{OrderCreated, World, builder, prepare, settled};

const SOON: Duration = Duration::from_secs(30);
const PARAMETERS: &str = "ignore_startup_parameters = extra_float_digits";
const TABLES: &str = "relkind = 'r' AND relnamespace = 'public'::regnamespace";

/// A pooler in transaction mode, which loses prepared statements: by its age, or because it is told to.
async fn losing(settings: &[&str]) -> OwnPgbouncer {
    let mut lines = vec!["pool_mode = transaction", PARAMETERS];
    if OwnPgbouncer::version() >= (1, 21) {
        lines.push("max_prepared_statements = 0");
    }
    lines.extend(settings);
    OwnPgbouncer::before(&outbox_it::postgres::server_url(), &lines).await
}

fn of(url: String, broker: &str) -> RuntimeBuilder {
    builder(url, broker, handlers![crate::world::reserve_stock])
}

async fn refused(builder: RuntimeBuilder) -> String {
    let started = tokio::time::timeout(SOON, builder.start()).await.expect("an answer");
    let error = started.expect_err("it must be refused");
    assert!(error.as_start().is_some(), "{error:?}");
    error.to_string()
}

fn assert_refusal(text: &str, why: &str) {
    for part in [
        "DATABASE_URL: ",
        "a pooler gives its sessions to another client after each transaction",
        why,
        "a URL that goes to the server itself",
        "pool_mode = session",
        "pgbouncer 1.21 or newer with max_prepared_statements",
    ] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

/// F22: transact-rs/sqlx#67, #2473; sqlpage/SQLPage#131 (`sqlx_s_1 already exists`); pgbouncer/pgbouncer#1118, #845: refused at once in every role and
/// with every shape of the pool, with the reason and the cures, before anything is written; not retried, also without `fail_fast`.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_pooler_that_loses_prepared_statements_is_refused_with_the_cures() {
    let (db, vhost) = tokio::join!(TestDatabase::new(), TestVhost::new());
    for settings in [&["default_pool_size = 20"] as &[&str], &["default_pool_size = 1"], &["server_round_robin = 1"]] {
        let pooler = losing(settings).await;
        let url = pooler.url(&db.url());
        let text = refused(of(url.clone(), vhost.url())).await;
        assert_refusal(&text, "prepared statements do not survive it");
        let text = refused(of(url.clone(), vhost.url()).role(Role::PublishOnly)).await;
        assert_refusal(&text, "prepared statements do not survive it");
        // Without a cache statements have names all the same, and nobody gives them up.
        let text = refused(of(format!("{url}?statement-cache-capacity=0"), vhost.url())).await;
        assert_refusal(&text, "");
        let pool = PgPoolOptions::new().connect_lazy(&url).unwrap();
        let text = refused(of(String::new(), vhost.url()).database(&pool)).await;
        assert_refusal(&text, "prepared statements do not survive it");
    }
    assert_eq!(db.count("pg_class", TABLES).await, 0, "nothing was written");
}

/// F22: the same while other clients take the pooler's sessions all the time; asked again and again, the answer is the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_pooler_under_load_is_found_out_every_time() {
    let (db, vhost) = tokio::join!(TestDatabase::new(), TestVhost::new());
    for settings in [&["default_pool_size = 4"] as &[&str], &["default_pool_size = 8", "server_round_robin = 1"]] {
        let pooler = losing(settings).await;
        let url = pooler.url(&db.url());
        let stop = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..6)
            .map(|_| {
                let (url, stop) = (url.clone(), Arc::clone(&stop));
                tokio::spawn(async move {
                    let mut connection = PgConnection::connect(&url).await.unwrap();
                    while !stop.load(Ordering::SeqCst) {
                        sqlx::raw_sql("SELECT pg_sleep(0.002)").execute(&mut connection).await.unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..12 {
            assert_refusal(&refused(of(url.clone(), vhost.url())).await, "prepared statements do not survive it");
        }
        stop.store(true, Ordering::SeqCst);
        for client in clients {
            client.await.unwrap();
        }
    }
}

/// F22: with session pooling everything works: events are published, effects happen once, failed runs are repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_pooler_carries_everything() {
    let world = World::new().await;
    let settings = ["pool_mode = session", "default_pool_size = 60", PARAMETERS];
    let pooler = OwnPgbouncer::before(&outbox_it::postgres::server_url(), &settings).await;
    let logs = Logs::capture();
    carries_everything(&world, &pooler.url(&world.db.url())).await;
    assert!(logs.with(&["behind a transaction pooler"]).is_empty());
}

/// F22: a pooler that keeps prepared statements (pgbouncer 1.21 or newer) carries everything in transaction mode, and the log says what is not relied
/// on; sessions that cannot be told their isolation, and statements that nobody gives up, are refused. An older one is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_pooler_that_keeps_prepared_statements_carries_everything() {
    let world = World::new().await;
    if OwnPgbouncer::version() < (1, 21) {
        let pooler = losing(&[]).await;
        let text = refused(of(pooler.url(&world.db.url()), world.vhost.url())).await;
        return assert_refusal(&text, "prepared statements do not survive it");
    }
    for shape in ["default_pool_size = 1", "default_pool_size = 12"] {
        let settings = ["pool_mode = transaction", "max_prepared_statements = 200", PARAMETERS, shape];
        let pooler = OwnPgbouncer::before(&outbox_it::postgres::server_url(), &settings).await;
        let url = pooler.url(&world.db.url());
        let text = refused(of(format!("{url}?statement-cache-capacity=0"), world.vhost.url())).await;
        assert_refusal(&text, "statement-cache-capacity=0");
        let name = world.db.name();
        world.db.execute(&format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")).await;
        let strict = OwnPgbouncer::before(&outbox_it::postgres::server_url(), &settings).await;
        let text = refused(of(strict.url(&world.db.url()), world.vhost.url())).await;
        assert_refusal(&text, "default_transaction_isolation = 'read committed'");
        world.db.execute(&format!("ALTER DATABASE {name} RESET default_transaction_isolation")).await;
        if shape.ends_with("12") {
            let logs = Logs::capture();
            carries_everything(&world, &url).await;
            logs.assert_present(&["behind a transaction pooler", "LISTEN"]);
        }
    }
}

async fn carries_everything(world: &World, url: &str) {
    let script = Script::new(|order, run| match (&order[10..], run) {
        ("07", 1..=2) => Act::Fail("not yet"),
        ("13", 1) => Act::Return(outbox::Outcome::RetryAfter(Duration::from_millis(500))),
        _ => Act::sleep(2),
    });
    let start = async || runtime_at(url, world.vhost.url(), &script, quick()).fail_fast(true).start().await.unwrap();
    let (one, two) = (start().await, start().await);
    let pool = PgPoolOptions::new().max_connections(3).connect(url).await.unwrap();
    for n in 0..200 {
        let mut tx = outbox::begin(&pool).await.unwrap();
        OrderCreated::number(n).enqueue(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        if n == 100 {
            two.shutdown().await;
        }
    }
    settled(&world.db, 200, SOON).await;
    tokio::time::timeout(SOON, one.idle()).await.expect("idle");
    assert!(parked(&world.db).await.is_empty());
    assert_eq!(world.db.count("outbox_messages", "status <> 'Published' OR attempt_count > 0").await, 0);
    one.shutdown().await;
    pool.close().await;
    assert_eq!(world.db.idle_in_transaction(Duration::from_secs(1)).await, 0);
}

/// F22: a pooler that takes no start-up parameters says something about a "parameter"; the start error says what to write where.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_takes_no_start_up_parameter_is_told_with_the_cure() {
    let (db, vhost) = tokio::join!(TestDatabase::new(), TestVhost::new());
    let pooler = OwnPgbouncer::before(&outbox_it::postgres::server_url(), &["pool_mode = session"]).await;
    let url = format!("{}?options=-c%20geqo%3Doff", pooler.url(&db.url()));
    let text = refused(of(url, vhost.url()).fail_fast(true)).await;
    for part in ["DATABASE_URL: ", "startup parameter", "ignore_startup_parameters = extra_float_digits"] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

/// F46: goauthentik/authentik#23876 (all pods locked out for an hour): two instances bring the tables through a pooler and one is killed in the middle.
/// Its lock goes with its transaction: the other one brings the tables and works.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_killed_while_it_migrates_through_a_pooler_leaves_no_lock() {
    let (db, vhost) = tokio::join!(TestDatabase::new(), TestVhost::new());
    let keeps = OwnPgbouncer::version() >= (1, 21);
    let mode =
        if keeps { ["pool_mode = transaction", "max_prepared_statements = 200"] } else { ["pool_mode = session", ""] };
    let pooler = OwnPgbouncer::before(&outbox_it::postgres::server_url(), &[&mode[..], &[PARAMETERS]].concat()).await;
    let url = pooler.url(&db.url());
    let env = [
        ("DATABASE_URL", url.as_str()),
        ("AMQP_URL", vhost.url()),
        ("RUST_LOG", "info"),
        ("RELAY_LEASE_MS", "4000"),
        ("RELAY_CONFIRM_MS", "2000"),
    ];
    let start = || Process::spawn(Path::new(env!("CARGO_BIN_EXE_relay")), &[], &env);
    let locks = async |granted: bool| {
        let ours =
            "locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        db.count("pg_locks", &format!("{ours} AND granted = {granted}")).await
    };
    // In the way of a table in the middle of the first migration.
    let mut way = db.pool().begin().await.unwrap();
    sqlx::raw_sql("CREATE TABLE parked_messages (mine int)").execute(&mut *way).await.unwrap();
    let mut first = start();
    eventually(SOON, "the first one has the lock", async || locks(true).await == 1).await;
    let second = start();
    eventually(SOON, "the second one waits for it", async || locks(false).await == 1).await;
    first.kill();
    way.rollback().await.unwrap();
    second.wait_for_line("relay started", SOON).await;
    eventually_value(SOON, "no lock is left", async || locks(true).await + locks(false).await, |n| *n == 0).await;
    assert_eq!(db.count("_outbox_migrations", "success").await, db.count("_outbox_migrations", "true").await);
    let wire = vhost.wire().await;
    tap(&wire, "orders", "orders.events", "#").await;
    commit(&db, (0..10).map(|n| OrderCreated::number(n).draft())).await;
    rows(&db, "status = 'Published'", 10, SOON).await;
    assert_eq!(take(&wire, "orders", 10).await.len(), 10);
}

/// F46: `outbox::migrate` through a transaction pooler that loses prepared statements, from two sides at once: it works or says why, and neither a half
/// of it nor a lock stays behind.
#[tokio::test(flavor = "multi_thread")]
async fn migrating_through_a_transaction_pooler_works_or_says_why() {
    let db = TestDatabase::new().await;
    let pooler = losing(&["default_pool_size = 1"]).await;
    let url = pooler.url(&db.url());
    // Somebody whose statement has the name that the next one's will have.
    let mut other = PgConnection::connect(&url).await.unwrap();
    let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(&mut other).await.unwrap();
    assert_eq!(one, 1);
    let pool = || PgPoolOptions::new().max_connections(1).connect_lazy(&url).unwrap();
    let (a, b) = (pool(), pool());
    let (left, right) = tokio::join!(outbox::migrate(&a), outbox::migrate(&b));
    // Whose transaction failed takes the session along: the other one may find the name free.
    let done = [&left, &right].into_iter().filter(|result| result.is_ok()).count();
    assert!(done < 2, "the name was taken");
    for error in [left, right].into_iter().filter_map(Result::err) {
        let text = format!("{error:?}");
        for part in ["a pooler gives its sessions", "sqlx_s_1", "a URL that goes to the server itself"] {
            assert!(text.contains(part), "{part:?} is missing in: {text}");
        }
    }
    let tables = db.count("pg_class", TABLES).await;
    assert_eq!(tables > 0, done == 1, "{tables} tables, {done} done");
    assert_eq!(
        db.count(
            "pg_locks",
            "locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        .await,
        0
    );
    prepare(&db).await;
}

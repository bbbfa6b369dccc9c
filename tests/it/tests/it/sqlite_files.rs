//! A SQLite file that cannot be used: what is said, and that nothing is lost.

use std::time::Duration;

use outbox::{Migrations, Role, handlers};
use outbox_it::{Process, eventually};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnection, SqlitePool};

use crate::sqlite_place::{Place, builder, enqueue, execute, number, settled};

#[tokio::test(flavor = "multi_thread")]
async fn something_else_than_a_database_is_refused_and_left_as_it_is() {
    let place = Place::new();
    let text = "These are my notes, and not a database. ".repeat(100);
    std::fs::write(place.path(), &text).unwrap();
    let said = place.refusal("").await;
    assert!(said.contains("not a SQLite database"), "{said}");
    assert_eq!(std::fs::read_to_string(place.path()).unwrap(), text);
    // Trying again would not help, so it is an error without `fail_fast`, too.
    let error = place.runtime("").start().await.expect_err("it must not start").to_string();
    assert!(error.contains("not a SQLite database"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_file_is_created_only_when_that_is_asked_for() {
    let place = Place::new();
    let said = place.refusal("").await;
    assert!(said.contains("?mode=rwc"), "{said}");
    assert!(!place.path().exists(), "a typing error makes no empty database");
    place.runtime("?mode=rwc").fail_fast(true).start().await.expect("it starts").shutdown().await;
    assert!(place.path().exists());
    let nowhere = format!("sqlite://{}?mode=rwc", place.directory.path().join("missing/shop.db").display());
    let said = builder().database_url(nowhere).start().await.expect_err("no such directory").to_string();
    assert!(said.contains("cannot be created") && said.contains("missing/shop.db"), "{said}");
    let directory = format!("sqlite://{}", place.directory.path().display());
    for url in [directory.as_str(), "sqlite:///dev/null"] {
        let said = builder().database_url(url).start().await.expect_err("not a file").to_string();
        assert!(said.contains("not a regular file"), "{said}");
    }
}

/// Whoever deletes the file of a running service gets no new one that looks as if all were well: the service stops and says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_vanishes_is_not_made_anew() {
    let place = Place::new();
    let runtime = place.runtime("?mode=rwc").start().await.expect("it starts");
    runtime.shutdown().await;
    let runtime = place.runtime("?mode=rwc").start().await.expect("it starts again");
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", place.path().display()));
    }
    // More connections than are open already.
    let looks = (0..8).map(|_| runtime.idle());
    let _ = tokio::time::timeout(Duration::from_secs(2), futures_util::future::join_all(looks)).await;
    assert!(!place.path().exists(), "no connection of the runtime makes a file");
    tokio::time::timeout(Duration::from_secs(10), runtime.stopping()).await.expect("it stops by itself");
    let health = runtime.health().to_string();
    assert!(health.contains("deleted or replaced") && health.contains("shop.db"), "{health}");
    tokio::time::timeout(Duration::from_secs(15), runtime.shutdown()).await.expect("it ends");
}

/// Without its lock a second process could start beside this one.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_vanishes_stops_the_service() {
    let (place, _pool) = Place::prepared().await;
    let runtime = place.runtime("").start().await.expect("it starts");
    std::fs::remove_file(format!("{}-outbox-lock", place.path().display())).unwrap();
    tokio::time::timeout(Duration::from_secs(10), runtime.run()).await.expect("it stops by itself").unwrap();
}

/// Rows that somebody wrote by hand: each is Dead with what is wrong, as it is, and its neighbours are handled.
#[tokio::test(flavor = "multi_thread")]
async fn broken_messages_in_the_queue_are_parked_and_their_neighbours_go_on() {
    let (place, pool) = Place::prepared().await;
    place.runtime("").start().await.expect("start").shutdown().await;
    let broken = [
        ("payload", r#"CAST(x'7b226f726465725f6964223a22ff222c227175616e74697479223a317d' AS TEXT)"#, "not UTF-8"),
        ("headers", "'[1]'", "headers"),
        ("headers", "'{nope'", "headers"),
        ("event_version", "0", "event_version"),
        ("enqueued_at", "9223372036854775807", "enqueued_at"),
        ("occurred_at", "-9223372036854775808", "occurred_at"),
    ];
    for (index, (column, value, _)) in broken.iter().enumerate() {
        let good =
            |name: &str, otherwise: &str| if *column == name { (*value).to_owned() } else { otherwise.to_owned() };
        let sql = format!(
            "INSERT INTO queue_messages (queue, event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload, headers,
                                         occurred_at, enqueued_at)
             VALUES ('files', 'broken-{index}', 'x', 'order.created', {}, 'orders.events', 'order.created', 'flat', {}, {}, {}, {})",
            good("event_version", "1"),
            good("payload", r#"'{"order_id":"broken","quantity":1}'"#),
            good("headers", "'{}'"),
            good("occurred_at", "1"),
            good("enqueued_at", "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"),
        );
        execute(&pool, &sql).await;
    }
    execute(
        &pool,
        "INSERT INTO parked_messages (consumer, event_id, event_type, body, properties, status, reason, attempts)
         VALUES ('files', 'spent', 'order.created', x'7b7d', '{}', 'Retrying', 'by hand', 2147483647)",
    )
    .await;
    enqueue(&pool, 0, 20).await;
    let runtime = place.runtime("").start().await.expect("start");
    settled(&pool, 20).await;
    runtime.idle().await;
    assert!(runtime.health().ready, "{}", runtime.health());
    for (index, (_, _, said)) in broken.iter().enumerate() {
        let sql = format!(
            "SELECT count(*) FROM parked_messages WHERE event_id = 'broken-{index}' AND status = 'Dead' AND reason = 'undecodable' AND error LIKE '%{said}%'"
        );
        assert_eq!(number(&pool, &sql).await, 1, "{said}");
    }
    assert_eq!(number(&pool, "SELECT count(*) FROM parked_messages WHERE body = x'7b226f726465725f6964223a22ff222c227175616e74697479223a317d'").await, 1);
    assert_eq!(
        number(&pool, "SELECT count(*) FROM parked_messages WHERE event_id = 'spent' AND status = 'Dead'").await,
        1
    );
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_memory_is_refused() {
    for url in ["sqlite::memory:", "sqlite://:memory:", "sqlite://shop?cache=shared&mode=memory"] {
        let error = builder().database_url(url).start().await.expect_err("it must not start").to_string();
        assert!(error.contains("in memory") && error.contains("sqlite://path/to/file.db"), "{error}");
    }
    let pool = SqlitePool::connect("sqlite::memory:").await.unwrap();
    let error = builder().database(&pool).start().await.expect_err("it must not start").to_string();
    assert!(error.contains("in memory"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_file_is_refused() {
    let (place, pool) = Place::prepared().await;
    enqueue(&pool, 0, 3).await;
    let said = place.refusal("?mode=ro").await;
    assert!(said.contains("readonly") && said.contains("mode=ro"), "{said}");
    place.runtime("").start().await.expect("it starts").idle().await;
    settled(&pool, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_newer_version_is_refused_and_left_as_it_is() {
    let (place, pool) = Place::prepared().await;
    execute(
        &pool,
        "INSERT INTO _outbox_migrations (version, description, success, checksum, execution_time)
         VALUES (99, 'from the future', TRUE, x'00', 0)",
    )
    .await;
    for migrations in [Migrations::Run, Migrations::Check] {
        let error = place.runtime("").migrations(migrations).fail_fast(true).start().await.expect_err("refused");
        let error = error.to_string();
        assert!(error.contains("newer version") && error.contains("99"), "{error}");
    }
    assert_eq!(number(&pool, "SELECT count(*) FROM outbox_settings WHERE key = 'broker'").await, 0);
}

/// A shell or a backup that keeps the file for itself: the service starts, waits and goes on by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_file_is_waited_for_and_said_to_be_locked() {
    let (place, pool) = Place::prepared().await;
    enqueue(&pool, 0, 5).await;
    let mut shell = SqliteConnection::connect_with(&place.options()).await.unwrap();
    sqlx::raw_sql("BEGIN EXCLUSIVE").execute(&mut shell).await.unwrap();
    let (said, runtime) = tokio::join!(place.refusal(""), async { place.runtime("").start().await.expect("it waits") });
    assert!(said.contains("database is locked") && said.contains("another process holds the lock"), "{said}");
    let health = runtime.health().to_string();
    assert!(health.contains("database is down") && health.contains("locked"), "{health}");
    sqlx::raw_sql("ROLLBACK").execute(&mut shell).await.unwrap();
    settled(&pool, 5).await;
    runtime.shutdown().await;
}

/// The limit on pages is SQLite's own, and so is the error: what a full disk says.
#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_everything_waits_and_nothing_is_spent_or_lost() {
    let (place, pool) = Place::prepared().await;
    execute(&pool, "CREATE TABLE filler (bytes BLOB); INSERT INTO filler VALUES (zeroblob(2000000))").await;
    enqueue(&pool, 0, 200).await;
    let pages = number(&pool, "PRAGMA page_count").await;
    let free = number(&pool, "PRAGMA freelist_count").await;
    assert_eq!(free, 0, "what is free could still be written to");
    let full =
        SqlitePool::connect_with(place.options().pragma("max_page_count", (pages + 1).to_string())).await.unwrap();
    let runtime = builder().database(&full).start().await.expect("it starts or waits");
    eventually(Duration::from_secs(20), "the disk is said to be full", async || {
        runtime.health().to_string().contains("full")
    })
    .await;
    assert!(!runtime.health().ready);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(number(&pool, "SELECT count(*) FROM parked_messages").await, 0, "nothing is spent");
    assert_eq!(number(&pool, "SELECT count(*) FROM outbox_messages").await, 200);
    // Room is made by somebody else.
    execute(&pool, "DROP TABLE filler").await;
    settled(&pool, 200).await;
    assert_eq!(number(&pool, "SELECT count(*) FROM parked_messages").await, 0);
    eventually(Duration::from_secs(20), "it is well again", async || runtime.health().ready).await;
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_on_one_file_is_refused_with_the_first_ones_number() {
    let (place, pool) = Place::prepared().await;
    execute(&pool, "CREATE TABLE intended (id TEXT PRIMARY KEY); ALTER TABLE effects RENAME COLUMN order_id TO id")
        .await;
    let worker = std::path::Path::new(env!("CARGO_BIN_EXE_worker"));
    let mut first = Process::spawn(worker, &[&place.url("")], &[]);
    first.wait_for_line("worker started", Duration::from_secs(20)).await;
    // Another path to the same file is the same file.
    std::os::unix::fs::symlink(place.path(), place.directory.path().join("link.db")).unwrap();
    for file in ["shop.db", "link.db"] {
        let url = format!("sqlite://{}", place.directory.path().join(file).display());
        let error = builder().database_url(url).start().await.expect_err("the file has an owner").to_string();
        assert!(error.contains(&format!("process {}", first.pid())) && error.contains(file), "{error}");
    }
    assert!(first.status().is_none(), "the first one goes on");
    // Who only writes events needs no ownership.
    let writer = place.runtime("").role(Role::PublishOnly).start().await.expect("it only enqueues");
    enqueue(&pool, 0, 1).await;
    writer.shutdown().await;
    first.kill();
    let second = place.runtime("").start().await.expect("the lock went with the process");
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runtimes_of_one_process_share_the_file() {
    let (place, pool) = Place::prepared().await;
    let first = place.runtime("").start().await.expect("start");
    let second = builder().database(&pool).start().await.expect("start");
    enqueue(&pool, 0, 100).await;
    settled(&pool, 100).await;
    first.shutdown().await;
    enqueue(&pool, 100, 150).await;
    settled(&pool, 150).await;
    second.shutdown().await;
}

/// A handler for another database than the runtime's is named, with both kinds.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_for_another_database_is_a_start_error() {
    let (place, _pool) = Place::prepared().await;
    let wrong = place.runtime("").registry(handlers![crate::world::reserve_stock]);
    let error = wrong.start().await.expect_err("refused").to_string();
    for part in ["reserve_stock", "PostgreSQL", "SQLite", "world.rs"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let wrong = crate::world::builder(
        outbox_it::TestDatabase::new().await.url(),
        "amqp://localhost",
        handlers![crate::sqlite_place::note],
    );
    let error = wrong.start().await.expect_err("refused").to_string();
    for part in ["note", "PostgreSQL", "SQLite", "sqlite_place.rs"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

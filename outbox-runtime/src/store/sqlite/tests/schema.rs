//! The tables, and what is remembered about a database.

use sqlx::migrate::MigrateError;
use sqlx::{Connection, Sqlite, SqliteConnection};

use super::{AGAIN, File, LEASE, binding, content, entry, limits, options, parked, route, take};
use crate::inbox::ParkedClaim;
use crate::store::sqlite::MIGRATIONS;
use crate::store::sqlite::recover::recover;
use crate::store::{Condition, Store, Writable};

#[test]
fn the_table_of_migrations_is_the_directory() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/sqlite");
    let mut files: Vec<String> =
        std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let table: Vec<String> = MIGRATIONS.iter().map(|(version, name, _)| format!("{version:04}_{name}.sql")).collect();
    assert_eq!(files, table);
    assert_eq!(crate::migrations::sqlite_sql().len(), MIGRATIONS.len());
}

#[tokio::test]
async fn migrations_run_once_and_a_newer_file_is_refused() {
    let file = File::empty().await;
    let mut connection = file.connection().await;
    assert_eq!(
        Sqlite::missing_migrations(&mut connection).await.unwrap(),
        ["0001_outbox", "0002_relay", "0003_numbers"]
    );
    Sqlite::migrate(&mut connection).await.unwrap();
    Sqlite::migrate(&mut connection).await.unwrap();
    assert!(Sqlite::missing_migrations(&mut connection).await.unwrap().is_empty());
    assert_eq!(file.text("PRAGMA journal_mode").await, "wal");
    assert_eq!(file.number("SELECT count(*) FROM _outbox_migrations").await, 3);

    file.sql("INSERT INTO _outbox_migrations VALUES (7, 'later', 'now', true, x'00', 0)").await;
    let newer = Sqlite::missing_migrations(&mut connection).await.unwrap();
    assert_eq!(newer, ["unknown migration 7: this file was written by a newer version"]);
    let refused = Sqlite::migrate(&mut connection).await;
    assert!(matches!(refused, Err(MigrateError::VersionMissing(7))), "{refused:?}");
}

#[tokio::test]
async fn a_database_without_a_file_is_refused() {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let refused = Sqlite::migrate(&mut connection).await.unwrap_err().to_string();
    assert!(refused.contains("WAL"), "{refused}");
}

#[tokio::test]
async fn settings_are_remembered() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    assert_eq!(Sqlite::remember(&mut connection, "broker", "a").await.unwrap(), "a");
    assert_eq!(Sqlite::remember(&mut connection, "broker", "b").await.unwrap(), "a");
    Sqlite::replace_setting(&mut connection, "broker", "x", "b").await.unwrap();
    assert_eq!(Sqlite::remember(&mut connection, "broker", "b").await.unwrap(), "a");
    Sqlite::replace_setting(&mut connection, "broker", "a", "b").await.unwrap();
    assert_eq!(Sqlite::remember(&mut connection, "broker", "c").await.unwrap(), "b");
}

#[tokio::test]
async fn a_probe_writes() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    assert_eq!(Sqlite::probe(&mut connection).await.unwrap(), Writable::Yes);
    assert_eq!(file.number("SELECT count(*) FROM outbox_settings WHERE key = 'probe'").await, 1);
    let read_only = options(&file.directory).read_only(true).create_if_missing(false);
    let mut reader = SqliteConnection::connect_with(&read_only).await.unwrap();
    assert_eq!(Sqlite::probe(&mut reader).await.unwrap(), Writable::ReadOnly);
    sqlx::raw_sql("PRAGMA query_only = ON").execute(&mut *connection).await.unwrap();
    assert_eq!(Sqlite::probe(&mut connection).await.unwrap(), Writable::ReadOnly);
}

#[tokio::test]
async fn a_lock_that_somebody_holds_is_a_conflict() {
    let file = File::new().await;
    let (mut holder, mut other) = (file.connection().await, file.connection().await);
    let tx = Sqlite::begin(&mut holder).await.unwrap();
    let busy = Sqlite::begin(&mut other).await.err().unwrap();
    assert_eq!(Sqlite::condition(&busy), Some(Condition::Conflict), "{busy}");
    // What finds nothing asks for no lock.
    assert!(Sqlite::claim(&mut other, "r", limits(1, 1)).await.unwrap().rows.is_empty());
    assert!(Sqlite::route_due(&mut other, &route(1, 1)).await.unwrap().rows.is_empty());
    assert!(take(&mut other, "q", "w", LEASE).await.is_empty());
    assert_eq!(Sqlite::put_back_expired(&mut other, 10).await.unwrap(), 0);
    assert_eq!(Sqlite::purge_published(&mut other, LEASE, 10).await.unwrap(), 0);
    for alone in [false, true] {
        let claim = ParkedClaim { consumer: "c".into(), claim_id: "p".into(), limit: 5, lease: LEASE, alone };
        assert!(Sqlite::claim_parked(&mut other, &claim).await.unwrap().is_empty());
    }
    Sqlite::rollback(tx).await.unwrap();
    let tx = Sqlite::begin(&mut other).await.unwrap();
    Sqlite::rollback(tx).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_the_databases_condition_and_leaves_no_half() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut *connection).await.unwrap();
    let full = format!("PRAGMA max_page_count = {}", pages + 2);
    sqlx::raw_sql(sqlx::AssertSqlSafe(full)).execute(&mut *connection).await.unwrap();
    let mut tx = Sqlite::begin(&mut connection).await.unwrap();
    let run = Sqlite::insert_inbox(&mut tx, &entry("1"), None).await.unwrap().unwrap();
    let fill = "CREATE TABLE t AS SELECT randomblob(1000000) AS x";
    let error = sqlx::raw_sql(fill).execute(&mut *tx).await.unwrap_err();
    assert_eq!(Sqlite::condition(&error), Some(Condition::Unavailable), "{error}");
    assert!(Sqlite::cure(error.as_database_error().unwrap().code().as_deref()).contains("disk is full"));
    // SQLite has undone the statement alone: what went before may be committed, as after any other error that a handler ignores.
    Sqlite::commit(tx, run).await.unwrap();
    assert_eq!(file.number("SELECT count(*) FROM inbox_messages").await, 1);
    assert_eq!(file.number("SELECT count(*) FROM sqlite_master WHERE name = 't'").await, 0);

    // Without a transaction around it, an event is there or it is not.
    let large = format!("\"{}\"", "x".repeat(1_000_000));
    for contents in [vec![content("1", &large)], vec![content("1", "{}"), content("2", &large)]] {
        let error = Sqlite::insert(&mut connection, &contents).await.unwrap_err();
        let crate::error::EnqueueError::Database(error) = error else { panic!("{error:?}") };
        assert_eq!(Sqlite::condition(&error), Some(Condition::Unavailable), "{error}");
        assert_eq!(file.number("SELECT count(*) FROM outbox_messages").await, 0);
    }
    sqlx::raw_sql("PRAGMA max_page_count = 100000").execute(&mut *connection).await.unwrap();
    Sqlite::insert(&mut connection, &[content("1", &large)]).await.unwrap();
    assert_eq!(Sqlite::probe(&mut connection).await.unwrap(), Writable::Yes);
}

#[tokio::test]
async fn a_new_process_takes_over_what_the_last_one_had() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    for id in ["1", "2"] {
        file.row(id, "k", 5, &[]).await;
    }
    Sqlite::bind(&mut connection, &[binding("q", "k")]).await.unwrap();
    Sqlite::route_due(&mut connection, &route(1, 100)).await.unwrap();
    assert_eq!(Sqlite::claim(&mut connection, "r", limits(1, 100)).await.unwrap().rows.len(), 1);
    let message = take(&mut connection, "q", "w", LEASE).await.remove(0);
    assert!(Sqlite::park(&mut connection, &parked("9", AGAIN)).await.unwrap());
    let mut claim = ParkedClaim { consumer: "c".into(), claim_id: "p".into(), limit: 5, lease: LEASE, alone: false };
    assert_eq!(Sqlite::claim_parked(&mut connection, &claim).await.unwrap().len(), 1);

    assert_eq!(recover(&mut connection).await.unwrap(), 3);
    assert_eq!(file.text("SELECT value FROM outbox_settings WHERE key = 'generation'").await, "1");
    assert_eq!(Sqlite::claim(&mut connection, "r2", limits(9, 100)).await.unwrap().rows[0].event_id, "2");
    let again = take(&mut connection, "q", "w2", LEASE).await.remove(0);
    assert_eq!((again.message_id, again.deliveries), (message.message_id, 2), "the delivery stays counted");
    assert!(Sqlite::claim_parked(&mut connection, &claim).await.unwrap().is_empty(), "its run came to no end");
    assert!(Sqlite::alone_due(&mut connection, "c").await.unwrap());
    claim.alone = true;
    let rerun = Sqlite::claim_parked(&mut connection, &claim).await.unwrap().remove(0);
    assert_eq!((rerun.attempts, rerun.isolated), (3, true));

    assert_eq!(recover(&mut connection).await.unwrap(), 3);
    assert_eq!(recover(&mut connection).await.unwrap(), 1, "only the parked row keeps a name, and its lease is over");
    assert_eq!(file.text("SELECT value FROM outbox_settings WHERE key = 'generation'").await, "3");
}

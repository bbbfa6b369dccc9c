//! What a handler may do to its transaction (C1): whatever it is, nothing becomes durable beside the dedup record.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, Sqlite, SqliteConnection};

use super::{File, content, entry};
use crate::inbox::{InboxEntry, Stamp};
use crate::store::session::Session;
use crate::store::{Refused, Store};

async fn business(file: &File) {
    file.sql(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY);
         CREATE TABLE business (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
         CREATE TRIGGER forbidden BEFORE INSERT ON business WHEN new.id = 13 BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
    )
    .await;
}

/// What is in the tables, on another connection.
async fn left(file: &File) -> i64 {
    file.number("SELECT (SELECT count(*) FROM business) + (SELECT count(*) FROM inbox_messages) + (SELECT count(*) FROM outbox_messages)")
        .await
}

/// Statements of a handler that ignores their errors; returns how many failed.
async fn ignoring(connection: &mut SqliteConnection, statements: &[&str]) -> usize {
    let mut failed = 0;
    for statement in statements {
        let done = sqlx::raw_sql(AssertSqlSafe((*statement).to_owned())).execute(&mut *connection).await;
        failed += usize::from(done.is_err());
    }
    failed
}

/// The next one who borrows the connection finds it as usual.
async fn usable(connection: &mut SqliteConnection, file: &File, id: i64) {
    assert!(!connection.is_in_transaction());
    let before = left(file).await;
    let insert = || AssertSqlSafe(format!("INSERT INTO business (id) VALUES ({id})"));
    let mut tx = connection.begin().await.unwrap();
    sqlx::raw_sql(insert()).execute(&mut *tx).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(left(file).await, before);
    let mut tx = connection.begin().await.unwrap();
    sqlx::raw_sql(insert()).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(left(file).await, before + 1);
    let mut tx = Sqlite::begin(connection).await.unwrap();
    let stamp = Sqlite::insert_inbox(&mut tx, &entry(&format!("next {id}")), None).await.unwrap().unwrap();
    Sqlite::prove(&mut tx, stamp).await.unwrap();
    Sqlite::commit(tx, stamp).await.unwrap();
    assert_eq!(left(file).await, before + 2);
    // In autocommit mode too.
    sqlx::raw_sql(AssertSqlSafe(format!("DELETE FROM business WHERE id = {id}")))
        .execute(&mut *connection)
        .await
        .unwrap();
    sqlx::raw_sql("DELETE FROM inbox_messages").execute(connection).await.unwrap();
}

async fn began<'c>(connection: &'c mut SqliteConnection, entry: &InboxEntry) -> (sqlx::Transaction<'c, Sqlite>, Stamp) {
    let mut tx = Sqlite::begin(connection).await.unwrap();
    let stamp = Sqlite::insert_inbox(&mut tx, entry, None).await.unwrap().unwrap();
    (tx, stamp)
}

#[tokio::test]
async fn a_run_commits_its_work_with_its_record() {
    let file = File::new().await;
    business(&file).await;
    let mut connection = file.connection().await;
    let (mut tx, stamp) = began(&mut connection, &entry("1")).await;
    assert_eq!(ignoring(&mut tx, &["INSERT INTO business (id) VALUES (1)"]).await, 0);
    let mut inner = tx.begin().await.unwrap();
    assert_eq!(ignoring(&mut inner, &["INSERT INTO business (id) VALUES (2)"]).await, 0);
    inner.commit().await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    assert_eq!(ignoring(&mut inner, &["INSERT INTO business (id) VALUES (3)"]).await, 0);
    inner.rollback().await.unwrap();
    drop(tx.begin().await.unwrap());
    // An error that SQLite answers by undoing the statement alone may be ignored.
    assert_eq!(ignoring(&mut tx, &["INSERT INTO business (id) VALUES (1)"]).await, 1);
    Sqlite::prove(&mut tx, stamp).await.unwrap();
    Sqlite::insert(&mut tx, &[content("e", "{}")]).await.unwrap();
    Sqlite::commit(tx, stamp).await.unwrap();
    assert_eq!(left(&file).await, 4);
    usable(&mut connection, &file, 50).await;
}

/// Statements of the handler, how many of them fail, and what the proof says.
const CASES: &[(&[&str], usize, &str)] = &[
    (&["INSERT INTO business (id) VALUES (1)", "COMMIT"], 1, "Ended"),
    (&["COMMIT", "INSERT INTO business (id) VALUES (1)"], 2, "Ended"),
    (&["END", "BEGIN", "INSERT INTO business (id) VALUES (1)"], 1, "Ended"),
    (&["COMMIT", "BEGIN", "INSERT INTO business (id) VALUES (1)", "COMMIT"], 2, "Ended"),
    (&["ROLLBACK", "BEGIN", "INSERT INTO business (id) VALUES (1)"], 0, "Ended"),
    (&["ROLLBACK", "SAVEPOINT a", "INSERT INTO business (id) VALUES (1)"], 0, "Ended"),
    (&["ROLLBACK", "SAVEPOINT a", "INSERT INTO business (id) VALUES (1)", "RELEASE a"], 1, "Ended"),
    (&["ROLLBACK", "INSERT INTO business (id) VALUES (1)"], 1, "Aborted"),
    (&["INSERT OR ROLLBACK INTO business (id) VALUES (1), (1)", "INSERT INTO business (id) VALUES (2)"], 2, "Aborted"),
    (&["INSERT INTO business (id) VALUES (13)", "INSERT INTO business (id) VALUES (2)"], 2, "Aborted"),
    (&["DELETE FROM inbox_messages"], 0, "Ended"),
    (&["SAVEPOINT a", "COMMIT"], 1, "Ended"),
];

#[tokio::test]
async fn whatever_a_handler_does_nothing_of_it_stays_and_the_connection_is_usable() {
    let file = File::new().await;
    business(&file).await;
    let mut connection = file.connection().await;
    for (statements, failing, want) in CASES {
        for proof in ["prove", "commit", "rollback"] {
            let (mut tx, stamp) = began(&mut connection, &entry("1")).await;
            assert_eq!(ignoring(&mut tx, statements).await, *failing, "{statements:?}");
            assert_eq!(left(&file).await, 0, "{statements:?}");
            let refused = match proof {
                "prove" => {
                    let refused = Sqlite::prove(&mut tx, stamp).await;
                    Sqlite::rollback(tx).await.unwrap();
                    refused.err()
                }
                "commit" => {
                    let refused = Sqlite::commit(tx, stamp).await.err();
                    // As the engine does: a refused commit costs the connection.
                    drop(std::mem::replace(&mut connection, file.connection().await).detach());
                    refused
                }
                _ => {
                    Sqlite::rollback(tx).await.unwrap();
                    assert_eq!(left(&file).await, 0, "{statements:?}");
                    usable(&mut connection, &file, 50).await;
                    continue;
                }
            };
            let said = refused.map(|refused| format!("{refused:?}"));
            assert_eq!(said.as_deref(), Some(*want), "{statements:?} {proof}");
            assert_eq!(left(&file).await, 0, "{statements:?}");
            usable(&mut connection, &file, 50).await;
        }
    }
}

#[tokio::test]
async fn a_commit_that_the_database_refuses_leaves_nothing() {
    let file = File::new().await;
    business(&file).await;
    let mut session = Session::<Sqlite>::reader(&file.pool).await.unwrap();
    let (mut tx, stamp) = began(session.connection().unwrap(), &entry("1")).await;
    assert_eq!(ignoring(&mut tx, &["INSERT INTO business (id, parent) VALUES (1, 99)"]).await, 0);
    let refused = Sqlite::commit(tx, stamp).await;
    assert!(matches!(&refused, Err(Refused::Database(error)) if Sqlite::condition(error).is_none()), "{refused:?}");
    drop(session);
    assert_eq!(left(&file).await, 0);
    usable(&mut *file.connection().await, &file, 50).await;
}

/// sqlx would end the inner transaction only, and say that all is well.
#[tokio::test]
async fn a_leaked_inner_transaction_is_committed_or_reported() {
    let file = File::new().await;
    business(&file).await;
    let mut session = Session::<Sqlite>::reader(&file.pool).await.unwrap();
    let (mut tx, stamp) = began(session.connection().unwrap(), &entry("1")).await;
    let mut inner = tx.begin().await.unwrap();
    assert_eq!(ignoring(&mut inner, &["INSERT INTO business (id) VALUES (1)"]).await, 0);
    std::mem::forget(inner);
    let committed = Sqlite::commit(tx, stamp).await;
    assert!(matches!(committed, Err(Refused::Database(_))), "the connection cannot be used again: {committed:?}");
    drop(session);
    assert_eq!(left(&file).await, 2, "and the work is durable with its record");

    let mut session = Session::<Sqlite>::reader(&file.pool).await.unwrap();
    let (mut tx, _) = began(session.connection().unwrap(), &entry("2")).await;
    std::mem::forget(tx.begin().await.unwrap());
    assert!(Sqlite::rollback(tx).await.is_err());
    drop(session);
    assert_eq!(left(&file).await, 2);
}

/// The proof does not trust the hooks alone.
#[tokio::test]
async fn a_handler_that_takes_the_hooks_off_and_commits_is_found_out() {
    let file = File::new().await;
    business(&file).await;
    let mut connection = file.connection().await;
    let (mut tx, stamp) = began(&mut connection, &entry("1")).await;
    tx.lock_handle().await.unwrap().remove_commit_hook();
    assert_eq!(ignoring(&mut tx, &["INSERT INTO business (id) VALUES (1)", "COMMIT"]).await, 0);
    let refused = Sqlite::prove(&mut tx, stamp).await;
    assert!(matches!(refused, Err(Refused::Ended)), "{refused:?}");
    let refused = Sqlite::commit(tx, stamp).await;
    assert!(matches!(refused, Err(Refused::Database(_))), "{refused:?}");
    let mut other = file.connection().await;
    assert!(Sqlite::committed_by_handler(&mut other, &entry("1"), stamp).await.unwrap());
}

#[tokio::test]
async fn a_statement_of_a_dropped_run_ends_and_gives_its_lock_up() {
    let file = File::new().await;
    business(&file).await;
    let mut session = Session::<Sqlite>::reader(&file.pool).await.unwrap();
    let (mut tx, stamp) = began(session.connection().unwrap(), &entry("1")).await;
    let endless = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
    let ran = tokio::time::timeout(Duration::from_millis(100), sqlx::raw_sql(endless).execute(&mut *tx)).await;
    assert!(ran.is_err(), "it would run for ever");
    drop(tx);
    drop(session);
    let started = Instant::now();
    let mut other = file.connection().await;
    Sqlite::end_session(&mut other, stamp).await.unwrap();
    usable(&mut other, &file, 50).await;
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(left(&file).await, 0);
}

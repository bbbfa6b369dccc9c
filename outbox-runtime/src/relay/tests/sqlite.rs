//! On files.

use proptest::test_runner::TestError;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Pool, Row as _, Sqlite};

use super::Mistake;
use super::table::{Seen, Table, table};
use crate::store::Store;

pub(super) struct File {
    _directory: tempfile::TempDir,
    pool: SqlitePool,
}

impl Table for Sqlite {
    type World = File;

    const EXPIRE: &'static str = "UPDATE outbox_messages SET locked_until = 1 WHERE status = 'Processing'";
    const TIME_PASSES: &'static str =
        "UPDATE outbox_messages SET next_attempt_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER)
         WHERE status = 'Pending' AND next_attempt_at < 9223372036854775807
           AND next_attempt_at > CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

    fn pool(world: &File) -> &Pool<Sqlite> {
        &world.pool
    }

    table!();
}

fn world(runtime: &tokio::runtime::Runtime) -> File {
    runtime.block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new()
            .filename(directory.path().join("model.db"))
            .create_if_missing(true)
            // What a power cut would do is not under test here.
            .synchronous(SqliteSynchronous::Off);
        let pool = SqlitePoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
        Sqlite::migrate(&mut *pool.acquire().await.unwrap()).await.unwrap();
        File { _directory: directory, pool }
    })
}

#[test]
fn random_histories_on_sqlite_keep_every_promise() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    super::check::<Sqlite>(&world(&runtime), &runtime, 2_000);
}

#[test]
fn a_relay_that_does_it_wrong_is_found_out() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = world(&runtime);
    let mistakes = [
        (Mistake::BelievesWhatNobodyKnows, &["Published without proof", "is lost", "which is earlier in its line"][..]),
        (Mistake::KeepsNoLine, &["which is earlier in its line"]),
        (Mistake::NeverSweeps, &["never published"]),
    ];
    for (mistake, found) in mistakes {
        match super::run::<Sqlite>(&world, &runtime, 5_000, Some(mistake)) {
            Err(TestError::Fail(reason, _)) => {
                assert!(found.iter().any(|found| reason.to_string().contains(found)), "{mistake:?}: {reason}");
            }
            other => panic!("{mistake:?}: {other:?}"),
        }
    }
}

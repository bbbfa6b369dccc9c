//! SIGKILL at random moments while one process produces, relays and handles, with the database as the broker: nothing is lost, nothing is doubled.

use std::path::Path;
use std::time::Duration;

use outbox_it::{Process, TestDatabase};
use sqlx::{Database, Executor, IntoArguments, Pool};

const KILLS: u32 = 200;

/// What a killed process left: rows that it had claimed, and events and messages that were on their way.
#[derive(Debug, Default, Clone, Copy)]
struct Left {
    claimed: i64,
    waiting: i64,
}

trait Eye {
    async fn number(&self, sql: &'static str) -> i64;
}

impl<DB: Database> Eye for Pool<DB>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> DB::Arguments: IntoArguments<DB>,
    (i64,): for<'r> sqlx::FromRow<'r, DB::Row>,
{
    async fn number(&self, sql: &'static str) -> i64 {
        let row: (i64,) = sqlx::query_as(sql).fetch_one(self).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        row.0
    }
}

async fn left(eye: &impl Eye) -> Left {
    let claimed = "SELECT (SELECT count(*) FROM outbox_messages WHERE status = 'Processing')
                        + (SELECT count(*) FROM queue_messages WHERE locked_by IS NOT NULL)
                        + (SELECT count(*) FROM parked_messages WHERE locked_by IS NOT NULL)";
    let waiting = "SELECT (SELECT count(*) FROM outbox_messages WHERE status = 'Pending') + (SELECT count(*) FROM queue_messages)";
    Left { claimed: eye.number(claimed).await, waiting: eye.number(waiting).await }
}

/// Kills, starts again, and at the end lets one process finish what is left.
async fn storm(url: &str, eye: &impl Eye) {
    let worker = Path::new(env!("CARGO_BIN_EXE_worker"));
    let (mut claimed, mut waiting) = (0, 0);
    for _ in 0..KILLS {
        let mut process = Process::spawn(worker, &[url], &[]);
        process.wait_for_line("worker started", Duration::from_secs(30)).await;
        // Not a multiple of any interval of ours.
        tokio::time::sleep(Duration::from_micros(10_000 + u64::from(rand()) % 240_000)).await;
        process.kill();
        let found = left(eye).await;
        claimed += u32::from(found.claimed > 0);
        waiting += u32::from(found.waiting > 0);
    }
    let mut last = Process::spawn(worker, &[url, "--drain"], &[]);
    assert!(last.wait(Duration::from_secs(90)).await.success(), "{:#?} {:#?}", left(eye).await, last.lines());

    let intended = eye.number("SELECT count(*) FROM intended").await;
    let lost = eye.number("SELECT count(*) FROM intended WHERE id NOT IN (SELECT id FROM effects)").await;
    let ghosts = eye.number("SELECT count(*) FROM effects WHERE id NOT IN (SELECT id FROM intended)").await;
    let doubled = eye.number("SELECT count(*) - count(DISTINCT id) FROM effects").await;
    println!(
        "kills={KILLS} kills that hit claimed rows={claimed} kills that hit events on their way={waiting} \
         events={intended} lost={lost} doubled={doubled} ghosts={ghosts}"
    );
    assert_eq!((lost, doubled, ghosts), (0, 0, 0));
    assert!(intended > i64::from(KILLS), "{intended} events in {KILLS} lives");
    assert!(claimed > KILLS / 4, "only {claimed} of {KILLS} kills hit work in flight");
    assert_eq!(eye.number("SELECT count(*) FROM parked_messages").await, 0, "nothing waits for a person");
}

fn rand() -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0_u8) as u32
}

const TABLES: &str = "CREATE TABLE intended (id text PRIMARY KEY); CREATE TABLE effects (id text NOT NULL)";

#[tokio::test(flavor = "multi_thread")]
async fn heavy_two_hundred_kills_on_postgres_lose_and_double_nothing() {
    let db = TestDatabase::new().await;
    outbox::migrate(db.pool()).await.expect("migrations");
    db.execute(TABLES).await;
    storm(&db.url(), db.pool()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_two_hundred_kills_on_sqlite_lose_and_double_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(directory.path().join("storm.db"));
    let pool = sqlx::SqlitePool::connect_with(options.create_if_missing(true)).await.unwrap();
    outbox::migrate(&pool).await.expect("migrations");
    sqlx::raw_sql(TABLES).execute(&pool).await.unwrap();
    storm(&format!("sqlite://{}", directory.path().join("storm.db").display()), &pool).await;
}

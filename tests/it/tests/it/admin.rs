//! `outbox::admin` on PostgreSQL: what it costs on a big table, whose rows it takes, and under which sessions.

use std::time::{Duration, Instant, SystemTime};

use outbox::admin::{Admin, Event, EventStatus, Filter, Page, RowOutcome, Selection};
use outbox_it::TestDatabase;
use outbox_runtime::Store;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgPool, Postgres};

use crate::world::{enqueue, prepare};

/// One connection, which tells the server what it did when it is closed.
fn pool(options: PgConnectOptions) -> PgPool {
    PgPoolOptions::new().max_connections(1).connect_lazy_with(options)
}

const INSERT: &str = "INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, exchange, routing_key, payload, payload_bytes,
                      status, published_at, next_attempt_at, last_error, locked_by, locked_until)";

/// Every statement that an operator or retention runs reads through indexes, and no more of them than was asked for, on a table with a million
/// published rows, 100,000 delayed and 100,000 blocked ones.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_no_look_and_no_action_reads_a_big_table() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    // Its reads would be counted as the call's.
    db.execute("ALTER TABLE outbox_messages SET (autovacuum_enabled = false)").await;
    for (rows, values) in [
        (
            1_000_000,
            "'p-' || n, 'order', n::text, NULL, 'order.created', 'e', 'k', '{}', 2, 'Published', now() - n * interval '1 second', now(), NULL, NULL, NULL::timestamptz",
        ),
        (
            100_000,
            "'l-' || n, 'order', n::text, NULL, 'order.created', 'e', 'k', '{}', 2, 'Pending', NULL, now() + n * interval '1 minute', NULL, NULL, NULL",
        ),
        (
            100_000,
            "'b-' || n, 'line', 'one', n, 'order.moved', 'e', 'k', '{}', 2, 'Pending', NULL, 'infinity', NULL, NULL, NULL",
        ),
        (
            200,
            "'f-' || n, 'order', n::text, NULL, 'order.created', 'e', 'k', '{}', 2, 'Failed', NULL, now(), 'NO_ROUTE', NULL, NULL",
        ),
        (
            20,
            "'x-' || n, 'order', n::text, NULL, 'order.created', 'e', 'k', '{}', 2, 'Processing', NULL, now(), NULL, 'gone', now() - interval '1 minute'",
        ),
    ] {
        db.execute(&format!("{INSERT} SELECT {values} FROM generate_series(1, {rows}) AS n")).await;
    }
    for analyzed in [false, true] {
        if analyzed {
            // What it reads itself is counted at the end of its session, at the latest.
            let mut vacuum = sqlx::PgConnection::connect_with(&db.options()).await.unwrap();
            sqlx::raw_sql("VACUUM ANALYZE outbox_messages").execute(&mut vacuum).await.unwrap();
            vacuum.close().await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let read =
            async |what: &str,
                   most_blocks: i64,
                   work: &dyn Fn(PgPool) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
                db.execute("SELECT pg_stat_reset_single_table_counters('outbox_messages'::regclass)").await;
                let one = pool(db.options());
                let begun = Instant::now();
                work(one.clone()).await;
                let took = begun.elapsed();
                one.close().await;
                outbox_it::eventually(Duration::from_secs(10), "the server has counted it", async || {
                db.number("SELECT COALESCE(sum(idx_scan), 0)::bigint FROM pg_stat_user_tables WHERE relname = 'outbox_messages'").await > 0
            })
            .await;
                let scans =
                    db.number("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'outbox_messages'").await;
                let rows = "SELECT COALESCE(sum(heap_blks_read + heap_blks_hit), 0)::bigint FROM pg_statio_user_tables WHERE relname = 'outbox_messages'";
                let blocks = db.number(rows).await;
                println!(
                    "analyzed {analyzed}: {what}: {took:?}, {scans} sequential scans, {blocks} blocks of the table"
                );
                assert_eq!(scans, 0, "analyzed {analyzed}: {what} scans the table");
                assert!(blocks <= most_blocks, "analyzed {analyzed}: {what} reads {blocks} blocks of the table");
            };
        // Far below the 20,000 blocks and more of the whole table.
        read("counts", 10_000, &|pool| {
            Box::pin(async move {
                let counts = Admin::new(pool).counts().await.unwrap();
                assert_eq!(counts.status(EventStatus::Failed).to_string(), "200");
                assert_eq!(
                    (counts.blocked.to_string(), counts.delayed.to_string(), counts.expired.to_string()),
                    ("10000+".into(), "10000+".into(), "20".into())
                );
                assert_eq!(counts.status(EventStatus::Published).to_string(), "10000+");
                assert_eq!(counts.held.events, 0);
            })
        })
        .await;
        read("the first page", 200, &|pool| {
            Box::pin(async move {
                let listed = Admin::new(pool).list(&Filter::new(), Page::of(100)).await.unwrap();
                assert_eq!(listed.events.len(), 100);
                assert!(listed.events.iter().all(|event: &Event| event.status == EventStatus::Failed));
            })
        })
        .await;
        read("pages of published events, newest first", 2_000, &|pool| {
            Box::pin(async move {
                let admin = Admin::new(pool);
                let published = Filter::new().status(EventStatus::Published);
                let first = admin.list(&published, Page::of(100).newest_first()).await.unwrap();
                assert_eq!(first.events[0].event_id, "p-1");
                let second =
                    admin.list(&published, Page::of(100).newest_first().after(first.next.unwrap())).await.unwrap();
                assert_eq!(second.events[0].event_id, "p-101");
            })
        })
        .await;
        read("one event", 50, &|pool| {
            Box::pin(async move {
                let shown = Admin::new(pool).show("b-50000").payload(true).await.unwrap().unwrap();
                assert_eq!(
                    (shown.waits_for.as_deref(), shown.payload.as_deref(), shown.blocked),
                    (Some("b-1"), Some("{}"), true)
                );
            })
        })
        .await;
        read("retry by filter", 5_000, &|pool| {
            Box::pin(async move {
                let report = Admin::new(pool)
                    .retry_now(Selection::of(Filter::new().error_contains("NO_ROUTE")).limit(100))
                    .await
                    .unwrap();
                assert_eq!(report.done(), 100);
            })
        })
        .await;
        read("skip in a long line", 200, &|pool| {
            Box::pin(async move {
                assert_eq!(Admin::new(pool).skip(Selection::ids(["b-7"])).await.unwrap().done(), 1);
            })
        })
        .await;
        read("the relay's figures", 10_000, &|pool| {
            Box::pin(async move {
                let stats = Postgres::outbox_stats(&mut pool.acquire().await.unwrap()).await.unwrap();
                assert_eq!(stats.expired, 20);
            })
        })
        .await;
        read("a round of retention that deletes", 5_000, &|pool| {
            Box::pin(async move {
                let keep = Duration::from_secs(900_000);
                assert_eq!(
                    Postgres::purge_published(&mut pool.acquire().await.unwrap(), keep, 1_000).await.unwrap(),
                    1_000
                );
            })
        })
        .await;
        read("a round of retention that moves", 5_000, &|pool| {
            Box::pin(async move {
                let archive = outbox_runtime::outbox::ArchiveTable::parse("archive").unwrap();
                let mut connection = pool.acquire().await.unwrap();
                Postgres::prepare_archive(&mut connection, &archive, true).await.unwrap();
                let after = Duration::from_secs(900_000);
                assert_eq!(Postgres::archive_published(&mut connection, &archive, after, 1_000).await.unwrap(), 1_000);
            })
        })
        .await;
        db.execute("UPDATE outbox_messages SET status = 'Failed', last_error = 'NO_ROUTE' WHERE event_id LIKE 'f-%'")
            .await;
    }
    assert_eq!(db.count("archive", "true").await, 2_000);
}

/// Who holds the lock of a row is not waited for: neither for the row itself, nor for the one behind it.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_waits_for_nobody() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    db.execute(&format!("{INSERT} SELECT 'b-' || n, 'line', 'one', n, 't', 'e', 'k', '{{}}', 2, 'Pending', NULL, 'infinity', NULL, NULL, NULL FROM generate_series(1, 4) AS n")).await;
    let admin = Admin::new(db.pool().clone());
    let mut holder = db.pool().begin().await.unwrap();
    sqlx::query("SELECT FROM outbox_messages WHERE event_id IN ('b-1', 'b-3') FOR UPDATE")
        .execute(&mut *holder)
        .await
        .unwrap();
    let skip = admin.skip(Selection::ids(["b-1", "b-2"]));
    let report = tokio::time::timeout(Duration::from_secs(5), skip).await.expect("no wait").unwrap();
    let outcomes: Vec<_> = report.rows.iter().map(|row| row.outcome.clone()).collect();
    assert!(matches!(outcomes[0], RowOutcome::Busy { locked_by: None, until: None, .. }), "{outcomes:?}");
    assert_eq!(outcomes[1], RowOutcome::Done);
    holder.rollback().await.unwrap();
    // The head is pulled as soon as nobody holds it.
    assert_eq!(admin.discard("b-2", "test").await.unwrap().done(), 1);
    let due = "SELECT count(*) FROM outbox_messages WHERE event_id = 'b-1' AND next_attempt_at <= now()";
    assert_eq!(db.number(due).await, 1);
    assert_eq!(db.count("outbox_messages", "next_attempt_at = 'infinity'").await, 2);
    assert_eq!(admin.discard(Selection::ids(["b-1"]), "test").await.unwrap().done(), 1);
    assert_eq!(db.count("outbox_messages", "event_id = 'b-3' AND next_attempt_at <= now()").await, 1);
}

/// Whatever the role's and the session's defaults are: an action is flushed, runs in READ COMMITTED, and times come back as they are.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_flushed_and_true_under_hostile_sessions() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    enqueue(&db, 0, 10).await;
    db.execute(
        "UPDATE outbox_messages SET next_attempt_at = '-infinity', occurred_at = 'infinity' WHERE aggregate_id = 'order-000009';
         CREATE TABLE under (flush text, isolation text);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO under VALUES (current_setting('synchronous_commit'), current_setting('transaction_isolation')); RETURN NULL; END $$;
         CREATE TRIGGER note AFTER UPDATE OR DELETE ON outbox_messages FOR EACH STATEMENT EXECUTE FUNCTION note()",
    )
    .await;
    let hostile = db.options().options([
        ("default_transaction_isolation", "serializable"),
        ("synchronous_commit", "off"),
        ("datestyle", "German"),
        ("timezone", "Asia/Kathmandu"),
        ("intervalstyle", "sql_standard"),
    ]);
    let pool = pool(hostile);
    let admin = Admin::new(pool.clone());
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let mut ids = Vec::new();
    let mut page = Page::of(3);
    loop {
        let listed = admin.list(&Filter::new().enqueued_from(hour_ago), page).await.unwrap();
        for event in &listed.events {
            let since = SystemTime::from(event.enqueued_at.unwrap()).duration_since(hour_ago).unwrap();
            assert!((3500..3700).contains(&since.as_secs()), "{event:?}");
            assert_eq!(event.next_attempt_at.is_none(), event.aggregate_id == "order-000009");
        }
        ids.extend(listed.events.into_iter().map(|event| event.event_id));
        match listed.next {
            Some(next) => page = Page::of(3).after(next),
            None => break,
        }
    }
    let all = ids.clone();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), all.len()), (10, 10), "each once");
    assert_eq!(admin.retry_now(Selection::ids(all[..2].to_vec())).await.unwrap().done(), 2);
    assert_eq!(admin.fail(Selection::ids(all[2..4].to_vec()), "r").await.unwrap().done(), 2);
    assert_eq!(admin.discard(Selection::ids(all[2..4].to_vec()), "r").await.unwrap().done(), 2);
    assert_eq!(db.count("under", "true").await, 3);
    assert_eq!(db.count("under", "flush = 'on' AND isolation = 'read committed'").await, 3);
    let mut connection = pool.acquire().await.unwrap();
    let left: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&mut *connection).await.unwrap();
    assert_eq!(left, "off", "nothing of it stays with the pooled connection");
}

/// Neither an error nor the log nor `Debug` has a payload or a password; a discarded event has a line with its id.
#[tokio::test(flavor = "multi_thread")]
async fn a_discarded_event_is_in_the_log_and_no_payload_is_anywhere() {
    let logs = outbox_it::Logs::capture();
    let db = TestDatabase::new().await;
    let admin = Admin::new(pool(db.options().password("hunter2secret")));
    let missing = admin.counts().await.unwrap_err();
    assert!(missing.to_string().contains("outbox::migrate"), "{missing}");
    prepare(&db).await;
    // The body as an argument: the driver's own log shows the text of statements.
    let insert = format!(
        "{INSERT} VALUES ('told', 'order', 'key', NULL, 't', 'e', 'k', $1::json, 23, 'Failed', NULL, now(), 'x', NULL, NULL)"
    );
    sqlx::query(sqlx::AssertSqlSafe(insert)).bind(r#"{"card": "4111-secret"}"#).execute(db.pool()).await.unwrap();
    let shown = admin.show("told").payload(true).await.unwrap().unwrap();
    assert!(shown.payload.as_deref().is_some_and(|payload| payload.contains("4111-secret")));
    let report = admin.discard("told", "sent by hand").await.unwrap();
    assert_eq!((report.done(), report.rows[0].was), (1, Some(EventStatus::Failed)));
    assert_eq!(report.rows[0].aggregate, Some(("order".to_owned(), "key".to_owned())));
    assert_eq!(logs.with(&["told", "sent by hand", "WARN"]).len(), 1);
    for text in [format!("{shown:?} {report:?} {admin:?} {missing:?}"), logs.with(&[]).join("\n")] {
        assert!(!text.contains("4111-secret") && !text.contains("hunter2secret"), "{text}");
    }
}

/// The statements that docs/operations.md gives to a person: the archive is the one that the runtime would make, and each action does what it says.
#[tokio::test(flavor = "multi_thread")]
async fn the_sql_of_the_docs_does_what_it_says() {
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md")).unwrap();
    let blocks: Vec<&str> = docs.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let block = |with: &str| *blocks.iter().find(|block| block.contains(with)).expect(with);
    let db = TestDatabase::new().await;
    prepare(&db).await;
    db.execute(block("CREATE TABLE published_events")).await;
    let mut connection = db.pool().acquire().await.unwrap();
    let table = outbox_runtime::outbox::ArchiveTable::parse("published_events").unwrap();
    let state = Postgres::prepare_archive(&mut connection, &table, false).await.unwrap();
    assert_eq!(state, outbox_runtime::outbox::ArchiveState::Ready);
    let own = outbox_runtime::outbox::ArchiveTable::parse("own_events").unwrap();
    Postgres::prepare_archive(&mut connection, &own, true).await.unwrap();
    let columns = "SELECT count(*) FROM (SELECT column_name, data_type, is_nullable, collation_name, ordinal_position FROM information_schema.columns
                   WHERE table_name IN ('published_events', 'own_events') GROUP BY 1, 2, 3, 4, 5 HAVING count(*) = 2) AS same";
    assert_eq!(db.number(columns).await, 18, "the same columns, types and order");

    let actions: Vec<&str> = block("-- retry now").split("-- ").skip(1).collect();
    for (action, before, after) in [
        ("retry now", "'Failed', NULL", "status = 'Pending' AND next_attempt_at <= now() AND attempt_count = 0"),
        ("let later", "'Failed', NULL", "status = 'Failed' AND skipped"),
        ("not tried", "'Pending', NULL", "status = 'Failed' AND last_error LIKE 'failed by an operator%'"),
        ("publish again", "'Published', now()", "status = 'Pending' AND published_at IS NULL"),
        ("for good", "'Failed', NULL", ""),
    ] {
        db.execute(&format!("DELETE FROM outbox_messages; {INSERT} VALUES ('mine', 'line', 'one', 1, 't', 'e', 'k', '{{}}', 2, {before}, now(), 'x', NULL, NULL)")).await;
        let sql = actions.iter().find(|sql| sql.starts_with(action)).expect(action);
        let (_, sql) = sql.split_once('\n').unwrap();
        db.execute(&sql.replace("'..'", "'mine'")).await;
        let want = i64::from(!after.is_empty());
        let after = if after.is_empty() { "true" } else { after };
        assert_eq!(db.count("outbox_messages", after).await, want, "{action}: {sql}");
    }
}

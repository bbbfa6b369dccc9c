//! F44: somebody's long transaction keeps dead rows in the table while events flow.

use std::time::Duration;

use outbox::telemetry::names;
use outbox::{Role, RuntimeBuilder};
use outbox_it::{OwnPostgres, TestDatabase, TestVhost, eventually, eventually_value};
use outbox_runtime::Store as _;
use sqlx::{Connection as _, PgConnection, Postgres};

use crate::meter::Meter;
use crate::producing::{rows, tap};
use crate::world::{builder, enqueue, prepare};

const SOON: Duration = Duration::from_secs(60);

fn relay(db: &TestDatabase, vhost: &TestVhost) -> RuntimeBuilder {
    builder(db.url(), vhost.url(), []).role(Role::Relay).relay_limits(100, 16 << 20)
}

/// Blocks that claims have read for each row that they have taken, since the last reset.
async fn blocks_per_row(db: &TestDatabase) -> f64 {
    sqlx::query_scalar(
        "SELECT (sum(shared_blks_hit + shared_blks_read) / greatest(sum(rows), 1))::float8 FROM pg_stat_statements s
         JOIN pg_database d ON d.oid = s.dbid
         WHERE d.datname = current_database() AND query ~ 'UPDATE outbox_messages' AND query ~ 'RETURNING' AND query ~ 'SKIP LOCKED'",
    )
    .fetch_one(db.pool())
    .await
    .unwrap()
}

/// Blocks that a scan reads which begins there, as the claim's does.
async fn scan(db: &TestDatabase, since: &str) -> u64 {
    let since = if since.starts_with('-') { format!("timestamptz '{since}'") } else { since.to_owned() };
    let sql = format!(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT event_id FROM outbox_messages WHERE status = 'Pending'
         AND next_attempt_at <= now() + interval '2 h' AND next_attempt_at >= {since}
         ORDER BY next_attempt_at, event_id LIMIT 100"
    );
    let plan: serde_json::Value = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(db.pool()).await.unwrap();
    ["Shared Hit Blocks", "Shared Read Blocks"].iter().map(|kind| plan[0]["Plan"][*kind].as_u64().unwrap()).sum()
}

async fn publish(db: &TestDatabase, from: usize, to: usize) -> f64 {
    sqlx::query("SELECT pg_stat_statements_reset()").execute(db.pool()).await.unwrap();
    enqueue(db, from, to).await;
    rows(db, "status = 'Published'", to, SOON).await;
    blocks_per_row(db).await
}

/// F44: brandur.org/postgres-queues (60,000 jobs of backlog in an hour), planetscale.com/blog/keeping-a-postgres-queue-healthy: a REPEATABLE READ session
/// is open while events flow. What a claim reads beside its rows stays below a block for five events, and the gauges tell of the session and the dead rows.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_held_snapshot_is_told_and_claims_stay_affordable() {
    let meter = Meter::install();
    let settings = [("shared_preload_libraries", "pg_stat_statements"), ("autovacuum_naptime", "1s"), ("fsync", "off")];
    let (server, vhost) = tokio::join!(OwnPostgres::start(&settings), TestVhost::new());
    let db = server.database().await;
    prepare(&db).await;
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    tap(&vhost.wire().await, "orders", "orders.events", "#").await;
    let runtime = relay(&db, &vhost).start().await.unwrap();

    let free = publish(&db, 0, 3_000).await;
    let mut holder = PgConnection::connect(&db.url()).await.unwrap();
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox_messages")
        .execute(&mut holder)
        .await
        .unwrap();
    let began = std::time::Instant::now();
    let mut held = Vec::new();
    for n in 1..=6 {
        held.push(publish(&db, 3_000 * n, 3_000 * (n + 1)).await);
    }
    println!("blocks per claimed row: {free:.1} without, {held:.1?} with a snapshot held");
    // A claim of 100 rows walks past the dead entries of the index, block by block and not row by row, and that only once a second (S4).
    let more = (held.last().unwrap() - free) * 100.0;
    assert!(more < 18_000.0 / 5.0, "{more:.0} more blocks for each claim after 18,000 events");
    let told = async || meter.gauge(names::OLDEST_SNAPSHOT_SECONDS, "").unwrap_or_default();
    let least = began.elapsed().as_secs_f64() - 0.5;
    eventually_value(SOON, "the gauge tells its age", told, |age| *age >= least).await;
    let dead = async || meter.gauge(names::DEAD_ROWS, "").unwrap_or_default();
    eventually_value(SOON, "the gauge tells of dead rows", dead, |rows| *rows > 15_000.0).await;

    // The others begin where the last one found something.
    db.execute("INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes, next_attempt_at)
                SELECT 'later-' || n, 'order', n::text, 'order.created', 'orders.events', 'k', '{}', 2, now() + interval '1 h' FROM generate_series(1, 100) AS n").await;
    let (from_the_beginning, from_the_hint) =
        (scan(&db, "-infinity").await, scan(&db, "now() + interval '59 minutes'").await);
    println!(
        "blocks of a scan for 100 due rows: {from_the_beginning} from the beginning, {from_the_hint} from where the last one found something"
    );
    assert!(
        from_the_hint <= 250 && from_the_hint * 3 < from_the_beginning,
        "{from_the_hint} and {from_the_beginning} blocks"
    );
    db.execute("DELETE FROM outbox_messages WHERE event_id LIKE 'later-%'").await;

    holder.close().await.unwrap();
    eventually_value(SOON, "the gauge tells its end", told, |age| *age < 2.0).await;
    eventually_value(SOON, "dead rows are cleared out", dead, |rows| *rows < 5_000.0).await;
    let after = publish(&db, 21_000, 24_000).await;
    println!("blocks per claimed row: {after:.1} after it");
    assert!(after < free * 1.5 + 2.0, "claims are as cheap as before: {after:.1}, {free:.1}");
    runtime.shutdown().await;
}

/// F44: a role that may not look at others' sessions still has its figures, and the relay works.
#[tokio::test(flavor = "multi_thread")]
async fn figures_of_a_role_that_sees_nobody_else_are_no_error() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    let role = outbox_it::names::unique();
    db.execute(&format!("CREATE ROLE {role}; GRANT SELECT ON outbox_messages TO {role}")).await;
    let mut other = PgConnection::connect(&db.url()).await.unwrap();
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").execute(&mut other).await.unwrap();
    let mut connection = PgConnection::connect(&db.url()).await.unwrap();
    let seen = async |connection: &mut PgConnection| Postgres::vacuum(connection).await.unwrap().unwrap();
    eventually(SOON, "an equal sees the session", async || {
        seen(&mut connection).await.oldest_snapshot >= Duration::from_millis(300)
    })
    .await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("SET ROLE {role}"))).execute(&mut connection).await.unwrap();
    assert_eq!(seen(&mut connection).await.oldest_snapshot, Duration::ZERO);
    sqlx::raw_sql("RESET ROLE").execute(&mut connection).await.unwrap();
    // A prepared transaction is nobody's session; where the server allows none, the view is empty.
    db.execute(&format!("REVOKE ALL ON outbox_messages FROM {role}; DROP ROLE {role}")).await;
}

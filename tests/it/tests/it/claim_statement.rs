//! The relay's statements, one at a time on one connection.

use std::time::Duration;

use outbox_it::TestDatabase;
use outbox_runtime::Store;
use outbox_runtime::outbox::{ClaimLimits, ClaimedRow, Fate, Settlement};
use sqlx::{Connection as _, PgConnection, Postgres};

use crate::producing::rows;
use crate::world::{enqueue, prepare};

const LIMITS: ClaimLimits = ClaimLimits { rows: 10, bytes: 16 << 20, lease: Duration::from_secs(60), since: None };

async fn connection(db: &TestDatabase) -> PgConnection {
    PgConnection::connect_with(&db.options()).await.unwrap()
}

async fn database() -> TestDatabase {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    db
}

async fn claim(connection: &mut PgConnection, claim: &str, limits: ClaimLimits) -> Vec<ClaimedRow> {
    <Postgres as Store>::claim(connection, claim, limits).await.unwrap().rows
}

fn published(row: &ClaimedRow, claim: &str) -> Settlement {
    Settlement { event_id: row.event_id.clone(), claim_id: claim.to_owned(), fate: Fate::Published }
}

async fn show(connection: &mut PgConnection, setting: &str) -> String {
    let sql = sqlx::AssertSqlSafe(format!("SHOW {setting}"));
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

/// F45: saurabhnanda/odd-jobs#115, graphile/worker#240: a nested loop runs the sub-select again and takes more rows than the limit.
#[tokio::test]
async fn a_claim_takes_its_limit_in_order_whatever_plan_the_server_chooses() {
    let db = database().await;
    // Statistics from the empty table, and no autovacuum that would correct them.
    db.execute("ALTER TABLE outbox_messages SET (autovacuum_enabled = false); ANALYZE outbox_messages").await;
    db.execute(
        "INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes, next_attempt_at)
         SELECT lpad(n::text, 8, '0'), 'order', n::text, 'order.created', 'orders.events', 'order.created', '{}', 2, now() - (n * 7919 % 100003) * interval '1 ms'
         FROM generate_series(1, 100000) AS n",
    )
    .await;
    let off = [
        "",
        "hashjoin",
        "mergejoin",
        "hashjoin mergejoin",
        "hashjoin mergejoin material",
        "nestloop",
        "indexscan indexonlyscan",
        "bitmapscan indexscan",
        "sort incremental_sort",
        "seqscan",
        "hashjoin mergejoin indexscan bitmapscan",
    ];
    for (round, off) in off.into_iter().enumerate() {
        db.execute(&format!("ALTER DATABASE {} RESET ALL", db.name())).await;
        for method in off.split_whitespace() {
            db.execute(&format!("ALTER DATABASE {} SET enable_{method} = off", db.name())).await;
        }
        let mut connection = connection(&db).await;
        let due =
            "SELECT event_id FROM outbox_messages WHERE status = 'Pending' ORDER BY next_attempt_at, event_id LIMIT 10";
        let due: Vec<String> = sqlx::query_scalar(due).fetch_all(&mut connection).await.unwrap();
        let name = format!("claim-{round}");
        let claimed = claim(&mut connection, &name, LIMITS).await;
        let ids: Vec<_> = claimed.iter().map(|row| row.event_id.clone()).collect();
        assert_eq!(ids, due, "without {off:?}");
        assert_eq!(db.count("outbox_messages", &format!("locked_by = '{name}'")).await, 10, "without {off:?}");
        // The other statements join in the same way.
        let renewed = <Postgres as Store>::renew(&mut connection, std::slice::from_ref(&name), LIMITS.lease).await;
        assert_eq!(renewed.unwrap(), 10, "without {off:?}");
        let outcomes: Vec<_> = claimed.iter().take(4).map(|row| published(row, &name)).collect();
        assert_eq!(
            <Postgres as Store>::settle(&mut connection, &outcomes, false).await.unwrap().settled,
            4,
            "without {off:?}"
        );
        let released = <Postgres as Store>::release(&mut connection, std::slice::from_ref(&name)).await.unwrap();
        assert_eq!(released, 6, "without {off:?}");
        assert_eq!(db.count("outbox_messages", "status = 'Processing'").await, 0);
    }
}

/// F45, S4: two relays that claim at the same time share no row, and leave none out.
#[tokio::test(flavor = "multi_thread")]
async fn claims_at_the_same_time_share_no_row() {
    let db = database().await;
    enqueue(&db, 0, 1_000).await;
    let claimers = (0..4).map(|n| {
        let options = db.options();
        tokio::spawn(async move {
            let mut connection = PgConnection::connect_with(&options).await.unwrap();
            let mut ids = Vec::new();
            for round in 0.. {
                let claimed = claim(&mut connection, &format!("{n}-{round}"), LIMITS).await;
                if claimed.is_empty() {
                    break;
                }
                ids.extend(claimed.into_iter().map(|row| row.event_id));
            }
            ids
        })
    });
    let mut ids: Vec<String> = Vec::new();
    for claimer in claimers.collect::<Vec<_>>() {
        ids.extend(claimer.await.unwrap());
    }
    let all = ids.len();
    ids.sort();
    ids.dedup();
    // A claimer that meets only locked rows sees none; what it left is claimed in the end.
    let rest = db.count("outbox_messages", "status = 'Pending'").await;
    assert_eq!(ids.len(), all, "a row was claimed twice");
    assert_eq!(i64::try_from(all).unwrap() + rest, 1_000);
}

/// R1: the waived flush does not outlive its statement, and is waived within it.
#[tokio::test]
async fn a_waived_flush_ends_with_its_statement() {
    let db = database().await;
    enqueue(&db, 0, 30).await;
    let mut connection = connection(&db).await;
    // What each statement ran under, as the server sees it.
    db.execute(
        "CREATE TABLE flushes (setting text);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO flushes VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
         CREATE TRIGGER note AFTER UPDATE ON outbox_messages FOR EACH STATEMENT EXECUTE FUNCTION note()",
    )
    .await;
    let names = ["a".to_owned()];
    let claimed = claim(&mut connection, "a", LIMITS).await;
    assert_eq!(show(&mut connection, "synchronous_commit").await, "on", "after a claim");
    <Postgres as Store>::renew(&mut connection, &names, LIMITS.lease).await.unwrap();
    assert_eq!(show(&mut connection, "synchronous_commit").await, "on", "after a renewal");
    let outcomes: Vec<_> = claimed.iter().take(5).map(|row| published(row, "a")).collect();
    <Postgres as Store>::settle(&mut connection, &outcomes, false).await.unwrap();
    assert_eq!(show(&mut connection, "synchronous_commit").await, "on", "after a settle");
    <Postgres as Store>::release(&mut connection, &names).await.unwrap();
    assert_eq!(show(&mut connection, "synchronous_commit").await, "on", "after a release");
    claim(&mut connection, "b", ClaimLimits { lease: Duration::ZERO, ..LIMITS }).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(<Postgres as Store>::put_back_expired(&mut connection, 100).await.unwrap(), 10);
    assert_eq!(show(&mut connection, "synchronous_commit").await, "on", "after a put-back");
    assert_eq!(db.count("flushes", "true").await, 6);
    assert_eq!(db.count("flushes", "setting = 'off'").await, 6, "each ran without a flush");
}

/// R7: a settlement under a lost lease changes nothing of its row, and the count tells.
#[tokio::test]
async fn a_settlement_under_a_lost_lease_changes_nothing() {
    let db = database().await;
    enqueue(&db, 0, 10).await;
    let mut connection = connection(&db).await;
    let claimed = claim(&mut connection, "mine", LIMITS).await;
    let lost: Vec<_> = claimed.iter().take(4).map(|row| row.event_id.clone()).collect();
    // Two were taken over, one was put back, one was settled by somebody else.
    let change = "UPDATE outbox_messages SET locked_by = 'another' WHERE event_id = ANY($1)";
    sqlx::query(change).bind(&lost[..2]).execute(&mut connection).await.unwrap();
    let change =
        "UPDATE outbox_messages SET status = 'Pending', locked_by = NULL, locked_until = NULL WHERE event_id = $1";
    sqlx::query(change).bind(&lost[2]).execute(&mut connection).await.unwrap();
    let change = "UPDATE outbox_messages SET status = 'Published', published_at = now(), locked_by = NULL, locked_until = NULL WHERE event_id = $1";
    sqlx::query(change).bind(&lost[3]).execute(&mut connection).await.unwrap();
    let digest =
        "SELECT md5(string_agg(o::text, '|' ORDER BY event_id)) FROM outbox_messages AS o WHERE event_id = ANY($1)";
    let before: String = sqlx::query_scalar(digest).bind(&lost).fetch_one(&mut connection).await.unwrap();
    let fates = [
        Fate::Published,
        Fate::Retry { after: Duration::from_secs(9), spent: true, unknown: false, skipped: false, error: "no".into() },
        Fate::Failed { error: "no".into(), skipped: false },
        Fate::PutBack,
    ];
    let outcomes: Vec<_> = claimed
        .iter()
        .zip(fates.iter().cycle())
        .map(|(row, fate)| Settlement { event_id: row.event_id.clone(), claim_id: "mine".into(), fate: fate.clone() })
        .collect();
    assert_eq!(<Postgres as Store>::settle(&mut connection, &outcomes, false).await.unwrap().settled, 6);
    let after: String = sqlx::query_scalar(digest).bind(&lost).fetch_one(&mut connection).await.unwrap();
    assert_eq!(before, after, "a row under another claim, pending or published is not touched");
    // Settling again finds nothing.
    assert_eq!(<Postgres as Store>::settle(&mut connection, &outcomes, false).await.unwrap().settled, 0);
    // A renewal of the lost claim takes nothing back.
    assert_eq!(<Postgres as Store>::renew(&mut connection, &["mine".to_owned()], LIMITS.lease).await.unwrap(), 0);
    rows(&db, "locked_by = 'another'", 2, Duration::from_secs(1)).await;
}

/// S4, window in bytes: a claim stops at its bytes, and one row always passes.
#[tokio::test]
async fn a_claim_stops_at_its_bytes_and_takes_one_row_at_least() {
    let db = database().await;
    enqueue(&db, 0, 10).await;
    db.execute("UPDATE outbox_messages SET payload_bytes = 100").await;
    let mut connection = connection(&db).await;
    assert_eq!(claim(&mut connection, "a", ClaimLimits { bytes: 350, ..LIMITS }).await.len(), 3);
    assert_eq!(claim(&mut connection, "b", ClaimLimits { bytes: 10, ..LIMITS }).await.len(), 1);
    assert_eq!(claim(&mut connection, "c", LIMITS).await.len(), 6);
}

/// S5: retention deletes what was published longer ago than it is kept, oldest first, in chunks, and nothing else.
#[tokio::test]
async fn retention_deletes_old_published_rows_in_chunks_and_nothing_else() {
    let db = database().await;
    old_and_new(&db, 25).await;
    let mut connection = connection(&db).await;
    let hour = Duration::from_secs(3600);
    assert_eq!(<Postgres as Store>::purge_published(&mut connection, hour, 10).await.unwrap(), 10);
    let oldest = "SELECT count(*) FROM outbox_messages WHERE event_id LIKE 'old-%' AND event_id <= 'old-00000015'";
    assert_eq!(db.number(oldest).await, 15, "the oldest went first");
    assert_eq!(<Postgres as Store>::purge_published(&mut connection, hour, 10).await.unwrap(), 10);
    assert_eq!(<Postgres as Store>::purge_published(&mut connection, hour, 10).await.unwrap(), 5);
    assert_eq!(<Postgres as Store>::purge_published(&mut connection, hour, 10).await.unwrap(), 0);
    only_old_published_rows_are_gone(&db, 25).await;
}

/// S5: rows that somebody else holds are left for the next round instead of being waited for.
#[tokio::test]
async fn retention_waits_for_nobody() {
    let db = database().await;
    old_and_new(&db, 20).await;
    let mut holder = db.pool().begin().await.unwrap();
    sqlx::query("SELECT FROM outbox_messages WHERE event_id = 'old-00000003' FOR UPDATE")
        .execute(&mut *holder)
        .await
        .unwrap();
    let mut connection = connection(&db).await;
    let purge = <Postgres as Store>::purge_published(&mut connection, Duration::from_secs(3600), 100);
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), purge).await.expect("no wait").unwrap(), 19);
    holder.rollback().await.unwrap();
}

/// `old` rows published hours ago (the higher the number the longer ago), as many published now, pending for days, Failed and with a relay.
pub async fn old_and_new(db: &TestDatabase, old: usize) {
    for (name, columns, values) in [
        ("old", "status, published_at", "'Published', now() - interval '2 hours' - n * interval '1 second'"),
        ("new", "status, published_at", "'Published', now()"),
        (
            "due",
            "status, enqueued_at, next_attempt_at",
            "'Pending', now() - interval '30 days', now() + interval '1 day'",
        ),
        ("dead", "status, enqueued_at, last_error", "'Failed', now() - interval '30 days', 'spent'"),
        (
            "held",
            "status, enqueued_at, locked_by, locked_until",
            "'Processing', now() - interval '30 days', 'x', now() + interval '1 day'",
        ),
    ] {
        db.execute(&format!(
            "INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes, {columns})
             SELECT '{name}-' || lpad(n::text, 8, '0'), 'order', n::text, 'order.created', 'orders.events', 'order.created', '{{}}', 2, {values}
             FROM generate_series(1, {old}) AS n"
        ))
        .await;
    }
}

pub async fn only_old_published_rows_are_gone(db: &TestDatabase, old: i64) {
    assert_eq!(db.count("outbox_messages", "event_id LIKE 'old-%'").await, 0);
    for kept in ["new", "due", "dead", "held"] {
        assert_eq!(db.count("outbox_messages", &format!("event_id LIKE '{kept}-%'")).await, old, "{kept}");
    }
}

//! Statement budgets (design section 12), counted by the server itself.

use std::time::Duration;

use outbox::{Role, handlers};
use outbox_it::{OwnPostgres, TestDatabase, TestVhost};

use crate::ordered_enqueue::AccountChanged;
use crate::world::{OrderCreated, builder, enqueue, prepare, settled};

/// What the server counted, by what a statement begins with.
async fn calls(db: &TestDatabase, pattern: &str) -> i64 {
    let sql = format!(
        "SELECT COALESCE(sum(calls), 0)::bigint FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid \
         WHERE d.datname = current_database() AND query ~ '{pattern}'"
    );
    db.number(&sql).await
}

async fn forget(db: &TestDatabase) {
    db.execute("SELECT pg_stat_statements_reset()").await;
}

const CLAIM: &str = "locked_until = CASE WHEN moves.place";
const SETTLE: &str = "FOR UPDATE OF o";
const INBOX: &str = "INSERT INTO inbox_messages";

/// Enqueue is 1 statement, whatever the number of events; the relay 2 for a batch; the consumer 1 beside the handler's own and begin/commit.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_statements_stay_within_their_budgets() {
    let postgres = OwnPostgres::start(&[("shared_preload_libraries", "pg_stat_statements")]).await;
    let db = postgres.database().await;
    let vhost = TestVhost::new().await;
    prepare(&db).await;
    db.execute("CREATE EXTENSION pg_stat_statements").await;

    forget(&db).await;
    let mut tx = db.pool().begin().await.unwrap();
    OrderCreated::number(0).enqueue(&mut tx).await.unwrap();
    outbox::enqueue_all(&mut tx, (1..500).map(|n| OrderCreated::number(n).draft())).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(calls(&db, "outbox_messages").await, 2, "one statement for one event, one for 499");

    // Events with order take their numbers in the same statement.
    forget(&db).await;
    let changed = |n: usize| AccountChanged { account: format!("account-{}", n % 7), step: n };
    let mut tx = db.pool().begin().await.unwrap();
    changed(0).enqueue(&mut tx).await.unwrap();
    let mixed = (1..500).map(|n| if n % 3 == 0 { OrderCreated::number(n).draft() } else { changed(n).draft() });
    outbox::enqueue_all(&mut tx, mixed).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(calls(&db, "outbox_(messages|sequences)").await, 2, "one statement for one event, one for 499");

    // The relay alone, 500 events due at once: one claim that finds them, one settle.
    vhost.wire().await.topic_exchange("orders.events").await;
    vhost.wire().await.quorum_queue("inventory-copy").await;
    vhost.wire().await.bind("inventory-copy", "orders.events", "order.created").await;
    forget(&db).await;
    let relay = builder(db.url(), vhost.url(), []).role(Role::Relay).start().await.unwrap();
    outbox_it::eventually(Duration::from_secs(20), "500 published", async || {
        db.count("outbox_messages", "status = 'Published'").await == 500
    })
    .await;
    assert_eq!(calls(&db, SETTLE).await, 1, "one settle for the batch");
    let rows = db
        .number(
            "SELECT COALESCE(sum(calls), 0)::bigint FROM pg_stat_statements WHERE rows >= 500 AND query ~ 'FOR UPDATE SKIP LOCKED' AND query ~ 'payload'",
        )
        .await;
    assert!(rows >= 1, "the claim was seen");
    let claims = calls(&db, CLAIM).await;
    // The test itself looks as often as it takes.
    let looks = calls(&db, "^SELECT count.* FROM outbox_messages WHERE status = ").await;
    let others = calls(&db, "outbox_messages").await - claims - calls(&db, SETTLE).await - looks;
    // Sweeps, figures and retention are per interval; renewals too.
    assert!(others <= 12, "{others} statements beside claim and settle in a run of a few seconds");
    relay.shutdown().await;

    // The consumer: exactly one inbox statement for each event, nothing else of ours in its transaction.
    forget(&db).await;
    let runtime = builder(db.url(), vhost.url(), handlers![crate::world::reserve_stock]).start().await.unwrap();
    enqueue(&db, 1000, 1200).await;
    settled(&db, 200, Duration::from_secs(20)).await;
    runtime.idle().await;
    let own = calls(&db, "INSERT INTO effects").await;
    assert_eq!(own, 200, "the handler's own statement");
    assert_eq!(calls(&db, INBOX).await, 200, "one statement for the dedup record");
    assert_eq!(
        calls(&db, "^BEGIN ISOLATION LEVEL READ COMMITTED$").await,
        200 + 1,
        "one begin; one of the migration check"
    );
    // Figures and retention, per interval, are the only others that have transactions.
    let others = calls(&db, "^BEGIN ISOLATION LEVEL .* READ (ONLY|WRITE)$").await;
    let commits = calls(&db, "^COMMIT").await - others;
    assert_eq!(commits, 200 + 2 + 1, "one commit; two of the producer, one of the migration check");
    let parked = calls(&db, "parked_messages").await;
    assert!(parked <= 60, "{parked} looks for parked messages: per interval, not per event");
    runtime.shutdown().await;
}

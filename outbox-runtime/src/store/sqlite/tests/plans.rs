//! No statement that runs at intervals, or for each event, reads a whole table.

use sqlx::{AssertSqlSafe, Row};

use super::File;
use crate::admin::{EventStatus, Filter};
use crate::{inbox, outbox, queue};

const TABLES: [&str; 6] =
    ["outbox_messages", "inbox_messages", "inbox_floors", "parked_messages", "queue_bindings", "queue_messages"];

async fn plan(file: &File, statement: &str) -> Vec<String> {
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let rows = sqlx::raw_sql(explain).fetch_all(&file.pool).await.unwrap();
    rows.iter().map(|row| row.get::<String, _>("detail")).collect()
}

/// A scan of a table, or of an index that has all of its rows. Names in a plan are the statements' aliases.
fn scan_of_all(detail: &str, partial: &[String]) -> bool {
    let Some(rest) = detail.strip_prefix("SCAN ") else { return false };
    let name = rest.split(' ').next().unwrap_or_default();
    let ours = TABLES.contains(&name) || ["o", "m", "i", "f", "q", "b", "p"].contains(&name);
    ours && !partial.iter().any(|index| rest.ends_with(&format!(" {index}")))
}

#[tokio::test]
async fn no_statement_reads_a_whole_table() {
    use crate::outbox::sqlite::admin::statements as admin;
    use inbox::sqlite::statements as inbox;
    use outbox::sqlite::statements as outbox;
    use queue::sqlite::statements as queue;

    let file = File::new().await;
    file.sql(
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3000)
         INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes,
                                      sequence, status, published_at, locked_by, locked_until)
         SELECT x, 'a', 'a' || (x % 7), 'a', 'e', 'k', '{}', 2, CASE WHEN x % 3 = 0 THEN x END, CASE WHEN x < 2000 THEN 'Published' WHEN x < 2900 THEN 'Pending' ELSE 'Processing' END,
                CASE WHEN x < 2000 THEN x END, CASE WHEN x >= 2900 THEN 'r' END, CASE WHEN x >= 2900 THEN x END FROM n",
    )
    .await;
    file.sql(
        "INSERT INTO queue_messages (queue, event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload, headers,
                                     occurred_at, enqueued_at, locked_by)
         SELECT 'q' || (rowid % 3), event_id, 'a', 'a', 1, 'e', 'k', 'flat', '{}', '{}', 1, 1, CASE WHEN rowid < 50 THEN 'w' END FROM outbox_messages;
         INSERT INTO inbox_messages (consumer, event_id, state, enqueued_at, event_version, fingerprint)
         SELECT 'c' || (rowid % 3), event_id, 'Processed', 1, 1, x'00' FROM outbox_messages;
         INSERT INTO parked_messages (consumer, event_id, body, properties, status, reason, isolated)
         SELECT 'c' || (rowid % 3), event_id, x'00', '{}', CASE WHEN rowid < 900 THEN 'Retrying' ELSE 'Dead' END, 'r', rowid < 20 FROM outbox_messages;
         INSERT INTO queue_bindings (queue, exchange, binding_key) SELECT 'q', 'e' || rowid, 'k' FROM outbox_messages;
         INSERT INTO inbox_floors (consumer) SELECT 'c' || rowid FROM outbox_messages",
    )
    .await;
    let partial: Vec<String> =
        sqlx::query_scalar("SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'")
            .fetch_all(&file.pool)
            .await
            .unwrap();
    let statements = [
        outbox::CANCEL,
        outbox::STANDING,
        outbox::DUE,
        outbox::TAKE,
        outbox::FIRST,
        outbox::CLAIM,
        outbox::DEFER,
        outbox::LOOK_AGAIN,
        outbox::RENEW,
        outbox::SETTLE,
        outbox::PULL,
        outbox::DELETE,
        outbox::HEADS,
        outbox::RELEASE_WAITING,
        outbox::RELEASE,
        outbox::EXPIRED,
        outbox::PUT_BACK_EXPIRED,
        outbox::OLD,
        outbox::PURGE_PUBLISHED,
        admin::BY_TYPE,
        admin::FIGURES,
        admin::SEEN,
        admin::RETRY,
        admin::FAIL,
        admin::DELETE,
        admin::SKIP,
        admin::REPLAY,
        admin::HEADS,
        admin::PULL,
        admin::SHOW,
        outbox::OLDEST,
        outbox::TAKE_AWAY,
        outbox::STATS,
        inbox::INSERT,
        inbox::TAKE,
        inbox::RECORD,
        inbox::COMMITTED,
        inbox::BELOW,
        inbox::PURGE,
        inbox::STATS,
        inbox::ALONE_DUE,
        inbox::DUE,
        inbox::BEGIN,
        inbox::CLAIM,
        inbox::CLAIM_ALONE,
        queue::KNOWN,
        queue::DEPTH,
        queue::DUE,
        queue::CLAIM,
        queue::RENEW,
        queue::ACK,
        queue::PUT_BACK,
        queue::READ,
        queue::DELETE,
        queue::BINDINGS,
        queue::PUT,
        queue::PUBLISHED,
        queue::HOLD,
    ];
    for analyzed in [false, true] {
        if analyzed {
            file.sql("ANALYZE").await;
            // Connections read the statistics when they open the file.
            file.sql("ANALYZE sqlite_schema").await;
        }
        // Lists, in all their shapes.
        let filters =
            [Filter::new(), Filter::new().error_contains("x"), Filter::new().event_type("a").aggregate("a", "a")];
        for mut scan in filters.iter().flat_map(|filter| filter.scans(&EventStatus::ALL)) {
            (scan.rows, scan.read) = (10, 100);
            for (after, newest_first) in
                [(None, false), (None, true), (Some((5, "x".to_owned())), false), (Some((5, "x".to_owned())), true)]
            {
                (scan.after, scan.newest_first) = (after, newest_first);
                let statement = admin::statement(&scan).unwrap().into_sql();
                let plan = plan(&file, statement.as_str()).await;
                let reads = format!(" outbox_messages_{}", ["held", "leased", "due", "published"][scan.path as usize]);
                assert!(plan.iter().any(|detail| detail.contains(&reads)), "{plan:#?}");
                assert!(!plan.iter().any(|detail| scan_of_all(detail, &partial)), "{plan:#?}");
            }
        }
        for statement in statements {
            let plan = plan(&file, statement).await;
            assert!(!plan.is_empty(), "{statement}");
            let scans: Vec<_> = plan.iter().filter(|detail| scan_of_all(detail, &partial)).collect();
            assert!(scans.is_empty(), "analyzed: {analyzed}\n{statement}\n{plan:#?}");
        }
    }
}

#[tokio::test]
async fn a_scan_is_found() {
    let file = File::new().await;
    for bad in [
        "SELECT count(*) FROM outbox_messages WHERE last_error = 'x'",
        "SELECT 1 FROM queue_messages AS q WHERE event_id = 'x'",
    ] {
        let plan = plan(&file, bad).await;
        assert!(plan.iter().any(|detail| scan_of_all(detail, &[])), "{plan:?}");
    }
}

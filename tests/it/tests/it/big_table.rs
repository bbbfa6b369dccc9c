//! What claims, routes, settles, renews, releases, puts back, sweeps or purges reads no more than its batch needs, whatever else the table holds (S4,
//! S5; design 12): 1,000,000 published events, 100,000 that are due later, 100,000 that wait for one blocked event of their key, and 1,000 that are
//! due, some of them skipped. Figures, the archive and what an operator does are in `admin`.

use std::collections::BTreeMap;

use outbox_it::TestDatabase;
use outbox_runtime::outbox::statements;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::world::prepare;

const TABLE: &str = "
INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, exchange, routing_key, payload, payload_bytes,
                             status, next_attempt_at, published_at, last_error, attempt_count, locked_by, locked_until, enqueued_at)
SELECT kind || '-' || lpad(n::text, 8, '0'), 'order', CASE kind WHEN 'blocked' THEN 'one' ELSE kind || (n / 4) END,
       CASE WHEN kind IN ('blocked', 'published', 'line', 'leased') THEN n END, 'order.created', 'orders.events', 'order.created', '{\"quantity\":1}', 14,
       CASE kind WHEN 'published' THEN 'Published' WHEN 'leased' THEN 'Processing' WHEN 'expired' THEN 'Processing' ELSE 'Pending' END,
       CASE WHEN kind = 'later' THEN now() + n * interval '1 minute' WHEN kind = 'blocked' AND n > 1 THEN 'infinity' WHEN kind = 'blocked' THEN now() + interval '1 day'
            WHEN kind = 'line' AND n % 4 > 0 THEN 'infinity' ELSE now() - n * interval '1 ms' END,
       CASE kind WHEN 'published' THEN now() - n * interval '1 s' END,
       CASE WHEN kind = 'blocked' AND n = 1 THEN '312 NO_ROUTE' END, CASE WHEN kind = 'blocked' AND n = 1 THEN 7 ELSE 0 END,
       CASE kind WHEN 'leased' THEN 'relay:1' WHEN 'expired' THEN 'relay:0' END,
       CASE kind WHEN 'leased' THEN now() + interval '1 h' WHEN 'expired' THEN now() - interval '1 h' END, now() - interval '1 h'
FROM (VALUES ('published', 1000000), ('later', 100000), ('blocked', 100000), ('due', 600), ('line', 400), ('leased', 500), ('expired', 500)) AS kinds (kind, count)
CROSS JOIN LATERAL generate_series(1, count) AS n";

struct Case {
    name: &'static str,
    sql: &'static str,
    types: &'static str,
    /// The arguments, for a batch of so many rows.
    arguments: fn(usize) -> String,
    /// Pages per row of the batch, and beside them.
    pages: (u64, u64),
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "claim",
            sql: statements::CLAIM,
            types: "int8, int8, text, int8, timestamptz",
            arguments: |rows| format!("{rows}, 16000000, 'me:1', 60000, NULL"),
            pages: (40, 60),
        },
        Case {
            name: "claim from a hint",
            sql: statements::CLAIM,
            types: "int8, int8, text, int8, timestamptz",
            arguments: |rows| format!("{rows}, 16000000, 'me:1', 60000, now() - interval '1 minute'"),
            pages: (40, 60),
        },
        Case {
            name: "route",
            sql: statements::ROUTE,
            types: "int8, int8, text, int8, timestamptz, text, bool",
            arguments: |rows| format!("{rows}, 16000000, 'me:1', 60000, NULL, '', false"),
            pages: (60, 60),
        },
        Case {
            name: "settle",
            sql: statements::SETTLE,
            types: "text[], text[], text[], int8[], int4[], int4[], bool[], text[], bool",
            arguments: |rows| {
                let ids: Vec<_> = (1..=rows).map(|n| format!("'leased-{n:08}'")).collect();
                let ids = ids.join(",");
                let each = |value: &str| vec![value; rows].join(",");
                format!(
                    "ARRAY[{ids}], ARRAY[{}], ARRAY[{}], ARRAY[{}], ARRAY[{}], ARRAY[{}], ARRAY[{}], ARRAY[{}]::text[], false",
                    each("'relay:1'"),
                    each("'Published'"),
                    each("0"),
                    each("0"),
                    each("0"),
                    each("false"),
                    each("NULL")
                )
            },
            pages: (40, 60),
        },
        Case {
            name: "renew",
            sql: statements::RENEW,
            types: "text[], int8",
            arguments: |_| "ARRAY['relay:1'], 60000".to_owned(),
            pages: (0, 15_000),
        },
        Case {
            name: "release",
            sql: statements::RELEASE,
            types: "text[]",
            arguments: |_| "ARRAY['relay:1']".to_owned(),
            pages: (0, 15_000),
        },
        Case {
            name: "put back",
            sql: statements::PUT_BACK_EXPIRED,
            types: "int8",
            arguments: |rows| rows.to_string(),
            pages: (40, 60),
        },
        Case {
            name: "sweep of the lines",
            sql: statements::RELEASE_WAITING,
            types: "text, text, int8, int8",
            arguments: |rows| format!("'', '', -9223372036854775808, {rows}"),
            pages: (20, 60),
        },
        Case {
            name: "purge",
            sql: statements::PURGE_PUBLISHED,
            types: "int8, int8",
            arguments: |rows| format!("3600000, {rows}"),
            pages: (20, 60),
        },
    ]
}

/// Every node of a plan, with what it reads.
fn nodes<'p>(plan: &'p serde_json::Value, into: &mut Vec<&'p serde_json::Value>) {
    into.push(plan);
    for child in plan["Plans"].as_array().into_iter().flatten() {
        nodes(child, into);
    }
}

async fn pages(connection: &mut PgConnection, case: &Case, rows: usize) -> (u64, serde_json::Value) {
    let mut tx = connection.begin().await.unwrap();
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE statement({})", (case.arguments)(rows));
    let plan: serde_json::Value =
        sqlx::query_scalar(AssertSqlSafe(explain)).persistent(false).fetch_one(&mut *tx).await.unwrap();
    tx.rollback().await.unwrap();
    let plan = plan[0]["Plan"].clone();
    let read = |node: &serde_json::Value| -> u64 {
        ["Shared Hit Blocks", "Shared Read Blocks"].iter().map(|kind| node[*kind].as_u64().unwrap()).sum()
    };
    let mut all = Vec::new();
    nodes(&plan, &mut all);
    // What writes and is not read by the rest runs by itself, and is not counted in the whole.
    let apart = all.iter().filter(|node| {
        node["Node Type"] == "ModifyTable"
            && node["Subplan Name"]
                .as_str()
                .and_then(|name| name.strip_prefix("CTE "))
                .is_some_and(|name| !all.iter().any(|other| other["CTE Name"] == name))
    });
    (read(&plan) + apart.map(|node| read(node)).sum::<u64>(), plan.clone())
}

#[tokio::test]
async fn heavy_no_statement_of_the_relay_reads_more_than_its_batch_needs() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    db.execute("ALTER TABLE outbox_messages SET (autovacuum_enabled = false)").await;
    db.execute("INSERT INTO queue_bindings (queue, exchange, binding_key) VALUES ('inventory', 'orders.events', 'order.created')").await;
    db.execute(TABLE).await;
    db.execute("UPDATE outbox_messages SET skipped = true, next_attempt_at = now() - interval '1 s' WHERE event_id LIKE 'line-%' AND sequence % 4 = 3").await;
    let mut connection = PgConnection::connect_with(&db.options()).await.unwrap();
    let mut table = BTreeMap::new();
    let mut wrong = Vec::new();
    // Without statistics, with them, and each with plans for any arguments and for these: the server may take any of them.
    for analyzed in [false, true] {
        if analyzed {
            db.execute("VACUUM ANALYZE outbox_messages").await;
        }
        for mode in ["force_generic_plan", "force_custom_plan"] {
            sqlx::raw_sql(AssertSqlSafe(format!("SET plan_cache_mode = {mode}")))
                .execute(&mut connection)
                .await
                .unwrap();
            for case in cases() {
                let prepare = format!("PREPARE statement({}) AS {}", case.types, case.sql);
                sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut connection).await.unwrap();
                for rows in [10, 100, 500] {
                    let (pages, plan) = pages(&mut connection, &case, rows).await;
                    let bound = case.pages.0 * rows as u64 + case.pages.1;
                    table.insert((case.name, rows, analyzed, mode), pages);
                    let mut all = Vec::new();
                    nodes(&plan, &mut all);
                    let scans: Vec<_> = all
                        .iter()
                        .filter(|node| node["Node Type"] == "Seq Scan" && node["Relation Name"] == "outbox_messages")
                        .collect();
                    if pages > bound || !scans.is_empty() {
                        wrong.push(format!(
                            "{} of {rows} rows ({mode}, analyzed: {analyzed}): {pages} pages, at most {bound}; {} sequential scans\n{plan:#}",
                            case.name,
                            scans.len()
                        ));
                    }
                }
                sqlx::raw_sql("DEALLOCATE statement").execute(&mut connection).await.unwrap();
            }
        }
    }
    for ((name, rows, analyzed, mode), pages) in table {
        println!("{name:>20} {rows:>5} rows analyzed={analyzed:<5} {mode:<20} {pages:>7} pages");
    }
    assert!(wrong.is_empty(), "{} plans read too much; the first:\n{}", wrong.len(), wrong[0]);
}

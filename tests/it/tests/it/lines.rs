//! Order within a key, by the relay's statements on PostgreSQL (S3, R6): what goes, what waits, and what lets it go on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outbox_it::TestDatabase;
use outbox_runtime::Store;
use outbox_runtime::outbox::{ClaimLimits, Fate, Settlement};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres};

use crate::world::prepare;

const LIMITS: ClaimLimits = ClaimLimits { rows: 10, bytes: 16 << 20, lease: Duration::from_secs(60), since: None };

struct Lines {
    db: TestDatabase,
    connection: PgConnection,
}

impl Lines {
    async fn new() -> Self {
        let db = TestDatabase::new().await;
        prepare(&db).await;
        let connection = PgConnection::connect_with(&db.options()).await.unwrap();
        Self { db, connection }
    }

    /// A row that has been due for `due` seconds; `None`: it waits.
    async fn row(&self, event_id: &str, key: &str, sequence: i64, due: Option<i64>) {
        let due = due.map_or("'infinity'".to_owned(), |seconds| format!("now() - interval '{seconds} s'"));
        self.db.execute(&format!(
            "INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, exchange, routing_key, payload, payload_bytes, next_attempt_at)
             VALUES ('{event_id}', 'order', '{key}', {sequence}, 'order.changed', 'e', 'order.changed', '{{}}', 10, {due})"
        )).await;
    }

    async fn claim(&mut self, claim_id: &str) -> (Vec<String>, u64) {
        let claimed = <Postgres as Store>::claim(&mut self.connection, claim_id, LIMITS).await.unwrap();
        (claimed.rows.into_iter().map(|row| row.event_id).collect(), claimed.deferred)
    }

    async fn settle(&mut self, claim_id: &str, fates: &[(&str, Fate)], delete: bool) -> (u64, u64) {
        let settlements: Vec<_> = fates
            .iter()
            .map(|(id, fate)| Settlement {
                event_id: (*id).to_owned(),
                claim_id: claim_id.to_owned(),
                fate: fate.clone(),
            })
            .collect();
        let settled = <Postgres as Store>::settle(&mut self.connection, &settlements, delete).await.unwrap();
        (settled.settled, settled.pulled)
    }

    async fn text(&mut self, sql: &str) -> String {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.connection).await.unwrap()
    }

    async fn waiting(&mut self) -> String {
        self.text("SELECT coalesce(string_agg(event_id, '' ORDER BY event_id), '') FROM outbox_messages WHERE next_attempt_at = 'infinity'")
            .await
    }
}

fn retry(skipped: bool) -> Fate {
    Fate::Retry { after: Duration::from_secs(60), spent: true, unknown: false, skipped, error: "312".to_owned() }
}

#[tokio::test]
async fn a_key_goes_on_when_the_event_before_is_published_and_not_earlier() {
    let mut lines = Lines::new().await;
    for (id, sequence, due) in [("a", 1, 10), ("b", 2, 40), ("c", 3, 30)] {
        lines.row(id, "x", sequence, Some(due)).await;
    }
    lines.row("d", "y", 1, Some(20)).await;
    assert_eq!(
        lines.claim("1").await,
        (["d", "a", "b", "c"].map(str::to_owned).to_vec(), 0),
        "in the order of its line"
    );

    // While a relay has the row before it, a row is put aside for a moment: that relay may settle without seeing it.
    lines.row("e", "x", 4, Some(1)).await;
    lines.row("f", "x", 5, Some(1)).await;
    assert_eq!(lines.claim("2").await, (vec![], 2));
    assert_eq!(lines.waiting().await, "f", "e was put aside for a moment");
    let soon = "SELECT (next_attempt_at BETWEEN now() AND now() + interval '3 s')::text FROM outbox_messages WHERE event_id = 'e'";
    assert_eq!(lines.text(soon).await, "true");

    let fates = [("a", Fate::Published), ("b", retry(false)), ("c", Fate::Blocked), ("d", Fate::Published)];
    assert_eq!(lines.settle("1", &fates, false).await, (4, 0));
    lines.db.execute("UPDATE outbox_messages SET next_attempt_at = now() WHERE event_id = 'e'").await;
    assert_eq!(lines.claim("3").await, (vec![], 1), "c waits before it");
    assert_eq!(lines.waiting().await, "cef");
    assert_eq!(lines.claim("4").await, (vec![], 0), "what waits is met once");

    lines.db.execute("UPDATE outbox_messages SET next_attempt_at = now() WHERE event_id = 'b'").await;
    assert_eq!(lines.claim("5").await.0, ["b", "c", "e", "f"], "those that wait go along");
    let fates = [("b", Fate::Published), ("c", Fate::Published), ("e", retry(false)), ("f", Fate::Blocked)];
    assert_eq!(lines.settle("5", &fates, true).await, (4, 0));
    assert_eq!(lines.db.count("outbox_messages", "aggregate_id = 'x'").await, 3, "b and c are deleted");
}

#[tokio::test]
async fn settling_a_row_makes_the_next_one_due() {
    let mut lines = Lines::new().await;
    lines.row("a", "x", 1, Some(1)).await;
    assert_eq!(lines.claim("1").await.0, ["a"]);
    lines.row("b", "x", 7, None).await;
    lines.row("c", "x", 8, None).await;
    assert_eq!(
        lines.settle("1", &[("a", Fate::Failed { error: "406".to_owned(), skipped: true })], false).await,
        (1, 1)
    );
    assert_eq!(lines.waiting().await, "c");
    assert_eq!(lines.claim("2").await.0, ["b", "c"]);
    // It keeps the others waiting no longer, and goes whenever it is run again.
    lines
        .db
        .execute("UPDATE outbox_messages SET status = 'Pending', next_attempt_at = now() WHERE event_id = 'a'")
        .await;
    assert_eq!(lines.claim("3").await.0, ["a"]);
    // A Failed event that is not skipped keeps its line waiting.
    assert_eq!(
        lines
            .settle(
                "2",
                &[("b", Fate::Failed { error: "406".to_owned(), skipped: false }), ("c", Fate::PutBack)],
                false
            )
            .await,
        (2, 0)
    );
    assert_eq!(lines.claim("4").await, (vec![], 1));
    assert_eq!(lines.waiting().await, "c");
}

#[tokio::test]
async fn what_waits_for_nothing_is_found_key_by_key() {
    let mut lines = Lines::new().await;
    for key in ["u", "v", "w", "x", "y"] {
        lines.row(&format!("{key}1"), key, 1, Some(1)).await;
        lines.row(&format!("{key}2"), key, 2, None).await;
    }
    lines.db.execute("DELETE FROM outbox_messages WHERE event_id IN ('v1', 'x1', 'y1')").await;
    let mut cursor = None;
    let mut released = Vec::new();
    for _ in 0..4 {
        let (count, next) =
            <Postgres as Store>::release_waiting(&mut lines.connection, cursor.as_ref(), 2).await.unwrap();
        released.push((count, next.is_some()));
        cursor = next;
    }
    assert_eq!(released, [(1, true), (1, true), (1, false), (0, true)], "u v, w x, y, and again from the beginning");
    assert_eq!(lines.waiting().await, "u2w2");
}

/// A row that was pulled forward between a scan's snapshot and its lock is not put aside: nobody would pull it again.
#[tokio::test]
async fn a_row_that_changed_since_the_snapshot_is_left_alone() {
    let mut lines = Lines::new().await;
    let role = outbox_it::names::unique();
    // The claim runs as a role whose policy waits for us where it reads rows: behind its snapshot, and before its locks.
    lines
        .db
        .execute(&format!(
            "CREATE ROLE {role}; GRANT SELECT, UPDATE ON outbox_messages TO {role};
             CREATE FUNCTION gate() RETURNS boolean LANGUAGE plpgsql VOLATILE AS
                 $$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN true; END $$;
             CREATE POLICY gate ON outbox_messages USING (gate()) WITH CHECK (true);
             ALTER TABLE outbox_messages ENABLE ROW LEVEL SECURITY"
        ))
        .await;
    lines.row("a", "x", 1, Some(1)).await;
    assert_eq!(lines.claim("1").await.0, ["a"]);
    lines.row("b", "x", 2, Some(1)).await;
    lines.row("z", "z", 1, Some(60)).await;

    let mut gate = PgConnection::connect_with(&lines.db.options()).await.unwrap();
    sqlx::query("SELECT pg_advisory_lock(42)").execute(&mut gate).await.unwrap();
    // Settled and pulled forward, at a time before the claim begins, and committed behind its snapshot.
    let mut settler = PgConnection::connect_with(&lines.db.options()).await.unwrap();
    let mut settling = settler.begin().await.unwrap();
    let published = Settlement { event_id: "a".to_owned(), claim_id: "1".to_owned(), fate: Fate::Published };
    let settled = <Postgres as Store>::settle(&mut settling, &[published], false).await.unwrap();
    assert_eq!((settled.settled, settled.pulled), (1, 1));
    let mut other = PgConnection::connect_with(&lines.db.options()).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("SET ROLE {role}"))).execute(&mut other).await.unwrap();
    let claiming = tokio::spawn(async move { <Postgres as Store>::claim(&mut other, "2", LIMITS).await.unwrap() });
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 42
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    outbox_it::eventually(Duration::from_secs(10), "the claim waits at the gate", async || {
        lines.db.number(waits).await == 1
    })
    .await;
    settling.commit().await.unwrap();
    sqlx::query("SELECT pg_advisory_unlock(42)").execute(&mut gate).await.unwrap();

    let claimed = claiming.await.unwrap();
    // In its snapshot `a` is still with the relay. It met `b`, and left it as it was.
    let ids: Vec<_> = claimed.rows.iter().map(|row| row.event_id.as_str()).collect();
    assert_eq!((ids, claimed.deferred), (vec!["z"], 0));
    let stamp = "SELECT next_attempt_at FROM outbox_messages WHERE event_id = 'b'";
    let stamp = sqlx::query_scalar(stamp).fetch_one(&mut lines.connection).await.unwrap();
    assert_eq!(claimed.met, stamp, "`b` was the latest that it met");
    let due = "SELECT (next_attempt_at <= now())::text FROM outbox_messages WHERE event_id = 'b'";
    assert_eq!(lines.text(due).await, "true");
    assert_eq!(lines.claim("3").await.0, ["b"]);
    lines.db.execute(&format!("REVOKE ALL ON outbox_messages FROM {role}; DROP ROLE {role}")).await;
}

/// Writers, relays that hold each other's followers, and no sweep: every row goes, and each key in its order.
#[tokio::test]
async fn concurrent_relays_lose_no_wake_up_and_keep_each_key_in_order() {
    const KEYS: usize = 12;
    const EACH: usize = 60;
    let lines = Lines::new().await;
    let log: Arc<Mutex<Vec<(String, i64)>>> = Arc::default();
    let mut tasks = Vec::new();
    for writer in 0..4 {
        let mut connection = PgConnection::connect_with(&lines.db.options()).await.unwrap();
        tasks.push(tokio::spawn(async move {
            for n in 0..EACH * KEYS / 4 {
                let key = (n * 7 + writer) % KEYS;
                sqlx::query(
                    "WITH number AS (
                         INSERT INTO outbox_sequences VALUES ('order', $1, 1)
                         ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET last_sequence = outbox_sequences.last_sequence + 1
                         RETURNING last_sequence)
                     INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, exchange, routing_key, payload, payload_bytes)
                     SELECT $2, 'order', $1, last_sequence, 'order.changed', 'e', 'order.changed', '{}', 10 FROM number",
                )
                .bind(format!("key-{key:02}"))
                .bind(format!("{writer}-{n:05}"))
                .execute(&mut connection)
                .await
                .unwrap();
            }
        }));
    }
    let started = Instant::now();
    for relay in 0..3 {
        let mut connection = PgConnection::connect_with(&lines.db.options()).await.unwrap();
        let log = Arc::clone(&log);
        tasks.push(tokio::spawn(async move {
            for round in 0_u64.. {
                let claim_id = format!("relay-{relay}:{round}");
                let limits = ClaimLimits { rows: 3 + relay * 9, ..LIMITS };
                let claimed = <Postgres as Store>::claim(&mut connection, &claim_id, limits).await.unwrap();
                let done = log.lock().unwrap().len() == KEYS * EACH;
                if done || started.elapsed() > Duration::from_secs(60) {
                    break;
                }
                let settlements: Vec<_> = claimed
                    .rows
                    .iter()
                    .map(|row| {
                        log.lock().unwrap().push((row.aggregate_id.clone(), row.sequence.unwrap()));
                        Settlement { event_id: row.event_id.clone(), claim_id: claim_id.clone(), fate: Fate::Published }
                    })
                    .collect();
                if settlements.is_empty() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    continue;
                }
                tokio::time::sleep(Duration::from_micros((round * 7919 + relay as u64 * 613) % 4_000)).await;
                let settled = <Postgres as Store>::settle(&mut connection, &settlements, false).await.unwrap();
                assert_eq!(settled.settled, settlements.len() as u64);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let log = log.lock().unwrap();
    assert_eq!(log.len(), KEYS * EACH, "every row was claimed, once, without a sweep");
    let mut by_key: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (key, sequence) in log.iter() {
        by_key.entry(key).or_default().push(*sequence);
    }
    for (key, sequences) in by_key {
        let want: Vec<i64> = (1..=sequences.len() as i64).collect();
        assert_eq!(sequences, want, "{key}");
    }
}

//! S3: the numbers of ordered events. They are the order of the commits, without gaps, whoever writes at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outbox::{Draft, Enqueue, EnqueueError};
use outbox_it::{TestDatabase, eventually};
use sqlx::Acquire as _;

use crate::on_stores::on_each_store;
use crate::world::OrderCreated;

/// An event that asks for order.
#[outbox::event(name = "account.changed", exchange = "orders.events", key = account, ordered)]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct AccountChanged {
    pub account: String,
    pub step: usize,
}

/// Another one of the same aggregate: they share the numbers.
#[outbox::event(name = "account.closed", exchange = "orders.events", key = account, ordered)]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct AccountClosed {
    pub account: String,
}

/// A third one, which asks for no order: it has no number.
#[outbox::event(name = "account.viewed", exchange = "orders.events", key = account)]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct AccountViewed {
    pub account: String,
}

fn changed(account: &str, id: &str) -> Draft {
    let event = AccountChanged { account: account.to_owned(), step: 0 };
    Draft::new(&event, Enqueue::new().event_id(id))
}

/// `key:number=event` of all rows, by key and number.
const ROWS: &str =
    "SELECT aggregate_id || ':' || COALESCE(CAST(sequence AS text), '-') || '=' || event_id FROM outbox_messages
                    ORDER BY aggregate_id, COALESCE(sequence, 0), event_id";
const COUNTERS: &str = "SELECT aggregate_type || ' ' || aggregate_id || '=' || CAST(last_sequence AS text) FROM outbox_sequences ORDER BY 1";

on_each_store! {
    /// One statement or many, in the order of the drafts, each key for itself.
    async fn the_numbers_of_a_key_are_in_the_order_of_its_events(place) {
        let mut tx = place.begin().await;
        AccountChanged { account: "a".into(), step: 1 }.enqueue_with(&mut tx, Enqueue::new().event_id("z")).await.unwrap();
        let closed = AccountClosed { account: "a".into() };
        let viewed = AccountViewed { account: "a".into() };
        let mixed = [
            changed("b", "y"),
            Draft::new(&viewed, Enqueue::new().event_id("v")),
            changed("a", "x"),
            Draft::new(&closed, Enqueue::new().event_id("w")),
            changed("b", "c"),
            changed("a", "b"),
        ];
        outbox::enqueue_all(&mut tx, mixed).await.unwrap();
        closed.enqueue_with(&mut tx, Enqueue::new().event_id("a")).await.unwrap();
        tx.commit().await.unwrap();
        let rows = place.texts(ROWS).await;
        assert_eq!(rows, ["a:-=v", "a:1=z", "a:2=x", "a:3=w", "a:4=b", "a:5=a", "b:1=y", "b:2=c"]);
        assert_eq!(place.texts(COUNTERS).await, ["account a=5", "account b=2"]);
    }

    /// What is not written is not counted, and the transaction goes on.
    async fn a_repeated_id_or_a_rollback_leaves_no_gap(place) {
        let duplicate = |result: Result<Vec<outbox::EventId>, EnqueueError>| match result {
            Err(error @ EnqueueError::Duplicate { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        };
        let mut tx = place.begin().await;
        outbox::enqueue_all(&mut tx, [changed("a", "1"), changed("b", "2")]).await.unwrap();
        assert_eq!(duplicate(outbox::enqueue_all(&mut tx, [changed("a", "1")]).await), "already in the outbox: 1");
        let again = [changed("a", "3"), changed("c", "2"), changed("b", "4"), changed("a", "1")];
        assert_eq!(duplicate(outbox::enqueue_all(&mut tx, again).await), "already in the outbox: 2, 1");
        tx.commit().await.unwrap();

        let mut tx = place.begin().await;
        outbox::enqueue_all(&mut tx, [changed("a", "5"), changed("d", "6")]).await.unwrap();
        tx.rollback().await.unwrap();

        let mut tx = place.begin().await;
        outbox::enqueue_all(&mut tx, [changed("a", "7")]).await.unwrap();
        let mut inner = tx.begin().await.unwrap();
        outbox::enqueue_all(&mut inner, [changed("a", "8"), changed("e", "9")]).await.unwrap();
        inner.rollback().await.unwrap();
        outbox::enqueue_all(&mut tx, [changed("a", "10"), changed("b", "11")]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(place.texts(ROWS).await, ["a:1=1", "a:2=7", "a:3=10", "b:1=2", "b:2=11"]);
        assert_eq!(place.texts(COUNTERS).await, ["account a=3", "account b=2"]);
    }
}

async fn migrated() -> TestDatabase {
    let db = TestDatabase::new().await;
    outbox::migrate(db.pool()).await.expect("migrations");
    db
}

/// An id that somebody else has written and not committed yet is met after the number was taken: the number is given back.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_was_not_visible_yet_gives_its_numbers_back() {
    let db = migrated().await;
    for many in [false, true] {
        let (first, second) = if many { ("c", "d") } else { ("a", "b") };
        let twin = format!("twin-{many}");
        let mut tx = db.pool().begin().await.unwrap();
        outbox::enqueue_all(&mut tx, [changed(first, &twin)]).await.unwrap();

        let mut other = db.pool().begin().await.unwrap();
        outbox::enqueue_all(&mut other, [changed(second, &format!("before-{many}"))]).await.unwrap();
        let mut drafts = vec![changed(second, &twin)];
        if many {
            drafts = vec![changed(second, "x"), changed("e", "y"), changed(second, &twin)];
        }
        let waiting = tokio::spawn(async move {
            let refused = outbox::enqueue_all(&mut other, drafts).await;
            (other, refused)
        });
        eventually(Duration::from_secs(10), "the second waits for the first", async || {
            db.sessions("wait_event_type = 'Lock'").await == 1
        })
        .await;
        tx.commit().await.unwrap();
        let (mut other, refused) = waiting.await.unwrap();
        let text = refused.expect_err("a repeated id").to_string();
        assert_eq!(text, format!("already in the outbox: {twin}"));
        outbox::enqueue_all(&mut other, [changed(second, &format!("after-{many}"))]).await.unwrap();
        other.commit().await.unwrap();
    }
    let rows: Vec<String> = sqlx::query_scalar(ROWS).fetch_all(db.pool()).await.unwrap();
    assert_eq!(
        rows,
        ["a:1=twin-false", "b:1=before-false", "b:2=after-false", "c:1=twin-true", "d:1=before-true", "d:2=after-true"]
    );
    assert_eq!(db.count("outbox_sequences", "aggregate_id = 'e' AND last_sequence <> 0").await, 0);
}

/// Promise 5: writers of one key are serialised. Whoever looks sees the numbers from 1 on without a gap, at any moment.
#[tokio::test(flavor = "multi_thread")]
async fn the_numbers_of_a_key_are_the_order_of_the_commits() {
    let db = migrated().await;
    // Its values are taken while the key is locked.
    db.execute("CREATE SEQUENCE turn; CREATE TABLE turns (event_id text, turn bigint)").await;
    let pool = db.pool_of(10);
    let done = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn({
        let (pool, done) = (pool.clone(), done.clone());
        async move {
            let mut looks = 0;
            while !done.load(Ordering::SeqCst) {
                let (count, max): (i64, i64) = sqlx::query_as(
                    "SELECT count(*), COALESCE(max(sequence), 0) FROM outbox_messages WHERE aggregate_id = 'one'",
                )
                .fetch_one(&pool)
                .await
                .unwrap();
                assert_eq!(count, max, "a later number is there before an earlier one");
                looks += 1;
            }
            looks
        }
    });
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let mut committed = 0;
                for round in 0..30 {
                    committed += write(&pool, writer, round).await;
                }
                committed
            })
        })
        .collect();
    let mut committed = 0;
    for writer in writers {
        committed += writer.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    assert!(watcher.await.unwrap() > 20, "somebody looked");
    assert_eq!(db.count("outbox_messages", "aggregate_id = 'one'").await, committed);
    assert_eq!(
        db.count(
            "outbox_messages",
            "aggregate_id = 'one' AND sequence BETWEEN 1 AND (SELECT last_sequence FROM outbox_sequences)"
        )
        .await,
        committed
    );
    let inverted = "SELECT count(*) FROM (SELECT turn < lag(turn) OVER (ORDER BY sequence) AS back FROM outbox_messages JOIN turns USING (event_id)) AS t WHERE back";
    assert_eq!(db.number(inverted).await, 0, "numbers out of the order of the turns");
    assert_eq!(
        db.number("SELECT last_sequence FROM outbox_sequences WHERE aggregate_id = 'one'").await,
        committed,
        "no gaps"
    );
}

/// One transaction: it commits, rolls back, or rolls a savepoint back and commits. Returns how many events it committed.
async fn write(pool: &sqlx::PgPool, writer: usize, round: usize) -> i64 {
    let event = AccountChanged { account: "one".into(), step: round };
    let mut tx = pool.begin().await.unwrap();
    let kind = (writer + round) % 4;
    if kind == 3 {
        let mut inner = tx.begin().await.unwrap();
        event.enqueue(&mut inner).await.unwrap();
        inner.rollback().await.unwrap();
    }
    let drafts = (0..1 + kind % 2).map(|_| event.draft());
    for id in outbox::enqueue_all(&mut tx, drafts).await.unwrap() {
        let turn = sqlx::query("INSERT INTO turns VALUES ($1, nextval('turn'))").bind(id.as_str());
        turn.execute(&mut *tx).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis((writer * 7 + round * 3) as u64 % 5)).await;
    if kind == 2 {
        tx.rollback().await.unwrap();
        return 0;
    }
    tx.commit().await.unwrap();
    1 + (kind % 2) as i64
}

/// S3: keys are locked in one order, whatever the order of the drafts.
#[tokio::test(flavor = "multi_thread")]
async fn batches_over_the_same_keys_in_opposite_orders_never_deadlock() {
    let db = migrated().await;
    let pool = db.pool_of(4);
    let writers: Vec<_> = [false, true]
        .map(|backwards| {
            let pool = pool.clone();
            tokio::spawn(async move {
                for step in 0..60 {
                    let mut accounts: Vec<usize> = (0..40).collect();
                    if backwards {
                        accounts.reverse();
                    }
                    let mut drafts: Vec<Draft> = accounts
                        .iter()
                        .map(|n| AccountChanged { account: format!("account-{n}"), step }.draft())
                        .collect();
                    drafts.push(OrderCreated::number(step).draft());
                    let mut tx = pool.begin().await.unwrap();
                    outbox::enqueue_all(&mut tx, drafts).await.expect("no deadlock");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    tx.commit().await.unwrap();
                }
            })
        })
        .into();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(db.count("outbox_sequences", "last_sequence = 120").await, 40);
    assert_eq!(db.count("outbox_messages", "sequence IS NULL").await, 120);
    let whole = "SELECT count(*) FROM (SELECT 1 FROM outbox_messages WHERE sequence IS NOT NULL GROUP BY aggregate_id HAVING count(*) = 120 AND max(sequence) = 120) AS t";
    assert_eq!(db.number(whole).await, 40);
}

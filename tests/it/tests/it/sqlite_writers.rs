//! One writer at a time: whoever begins with `outbox::begin` gets its turn.

use std::time::Duration;

use sqlx::sqlite::SqlitePool;

use crate::sqlite_place::{Place, enqueue, execute, number, settled};
use crate::world::OrderCreated;

/// What a producer reads that begins otherwise, or before there are tables.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_cannot_be_written_says_what_to_do() {
    let (_place, pool) = Place::prepared().await;
    let mut late = pool.begin().await.unwrap();
    sqlx::query("SELECT count(*) FROM effects").execute(&mut *late).await.unwrap();
    enqueue(&pool, 0, 1).await;
    let error = OrderCreated::number(1).enqueue(&mut late).await.expect_err("it began too early").to_string();
    assert!(error.contains("outbox::begin(&pool)"), "{error}");

    let empty = Place::new();
    let pool = SqlitePool::connect_with(empty.options()).await.unwrap();
    let mut tx = outbox::begin(&pool).await.unwrap();
    let error = OrderCreated::number(1).enqueue(&mut tx).await.expect_err("no tables").to_string();
    assert!(error.contains("outbox::migrate(&pool)"), "{error}");
}

/// 20,000 events are relayed and handled while others begin transactions all the time: none of them meets `SQLITE_BUSY`, none waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_burn_down_of_20_000_events_keeps_nobody_from_writing() {
    let (place, pool) = Place::prepared().await;
    execute(&pool, "CREATE TABLE notes (at INTEGER)").await;
    for chunk in 0..20 {
        enqueue(&pool, chunk * 1_000, (chunk + 1) * 1_000).await;
    }
    let started = std::time::Instant::now();
    let runtime = place.runtime("").start().await.expect("start");
    let done = tokio_util::sync::CancellationToken::new();
    let writers: Vec<_> = (0..2).map(|_| tokio::spawn(write_notes(pool.clone(), done.clone()))).collect();
    while number(&pool, "SELECT max(rowid) FROM inbox_messages").await < 20_000 {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    done.cancel();
    let (mut transactions, mut longest) = (0, Duration::ZERO);
    for writer in writers {
        let (count, wait) = writer.await.expect("a writer met an error");
        (transactions, longest) = (transactions + count, longest.max(wait));
    }
    println!(
        "20000 events in {:.1} s beside {transactions} transactions of others; the longest wait to begin: {longest:?}",
        started.elapsed().as_secs_f32()
    );
    settled(&pool, 20_000).await;
    runtime.idle().await;
    runtime.shutdown().await;
    assert!(transactions > 100, "{transactions}");
    assert_eq!(number(&pool, "SELECT count(*) FROM notes").await, transactions);
}

async fn write_notes(pool: SqlitePool, done: tokio_util::sync::CancellationToken) -> (i64, Duration) {
    let (mut transactions, mut longest) = (0, Duration::ZERO);
    while !done.is_cancelled() {
        let asked = std::time::Instant::now();
        let mut tx = outbox::begin(&pool).await.expect("no SQLITE_BUSY");
        longest = longest.max(asked.elapsed());
        sqlx::query("INSERT INTO notes VALUES (1)").execute(&mut *tx).await.expect("it writes");
        tx.commit().await.expect("it commits");
        transactions += 1;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    (transactions, longest)
}

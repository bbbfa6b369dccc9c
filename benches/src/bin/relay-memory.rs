//! The memory of a relay does not depend on the backlog or on the size of bodies: publishes a backlog, prints the peak of its resident
//! set, and exits with 1 if it is 128 MiB or more.
//!
//! `relay-memory pending [ROWS]`: 1,000,000 rows of about 190 bytes. `relay-memory large [ROWS]`: 2,000 rows of 1 MiB.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a program for people")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lapin::types::AMQPValue;
use outbox::{Broker, Role, Runtime};
use outbox_it::rabbit_wire::{table, text};
use outbox_it::{TestDatabase, TestVhost};

const LIMIT_KIB: u64 = 128 * 1024;

/// Rows as `enqueue` writes them, made by the server itself: the program must not hold them.
const FILL: &str = "
INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes)
SELECT 'e' || n, 'order', 'o' || n, 'order.created', 'orders.events', 'order.created', body::json, octet_length(body)
FROM (SELECT n, '{\"eventId\":\"e' || n || '\",\"eventType\":\"order.created\",\"occurredAt\":\"2026-07-15T10:00:00Z\",\"note\":\"' || repeat('x', SIZE) || '\"}' AS body
      FROM generate_series(FROM_ROW, TO_ROW) AS n) AS bodies";

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "pending".to_owned());
    let (rows, size) = match kind.as_str() {
        "pending" => (1_000_000_u64, 90),
        "large" => (2_000, 1024 * 1024),
        other => {
            println!("unknown kind {other:?}: pending or large");
            return ExitCode::from(2);
        }
    };
    let rows = arguments.next().map_or(rows, |text| text.parse().expect("ROWS is a number"));

    let db = TestDatabase::new().await;
    let vhost = TestVhost::new().await;
    outbox::migrate(db.pool()).await.expect("migrations");
    let mut from = 1;
    while from <= rows {
        // A statement at a time that the server can hold.
        let to = (from + if size > 1000 { 99 } else { 99_999 }).min(rows);
        let sql = FILL
            .replace("SIZE", &size.to_string())
            .replace("FROM_ROW", &from.to_string())
            .replace("TO_ROW", &to.to_string());
        db.execute(&sql).await;
        from = to + 1;
    }
    // A queue that keeps little: this measures the relay, not the broker.
    let wire = vhost.wire().await;
    wire.topic_exchange("orders.events").await;
    let short = table([
        ("x-queue-type", text("classic")),
        ("x-max-length", AMQPValue::LongInt(100)),
        ("x-overflow", text("drop-head")),
    ]);
    wire.queue_with("sink", short).await;
    wire.bind("sink", "orders.events", "order.created").await;

    let before = resident_peak_kib();
    let started = Instant::now();
    let runtime = Runtime::builder()
        .database_url(db.url())
        .broker(Broker::RabbitMq(vhost.url().to_owned()))
        .registry([])
        .role(Role::Relay)
        .signals(false)
        .start()
        .await
        .expect("start");
    while db.number("SELECT count(*) FROM (SELECT FROM outbox_messages WHERE status IN ('Pending', 'Processing') LIMIT 1) AS one").await > 0 {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    runtime.shutdown().await;
    let published = db.count("outbox_messages", "status = 'Published'").await;
    let peak = resident_peak_kib();
    println!(
        "relay-memory {kind} rows={rows} published={published} seconds={seconds:.1} before_mib={} peak_mib={} limit_mib={}",
        before / 1024,
        peak / 1024,
        LIMIT_KIB / 1024
    );
    if peak < LIMIT_KIB && published == i64::try_from(rows).unwrap() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// `VmHWM`: the most that this process ever had resident.
fn resident_peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("VmHWM");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

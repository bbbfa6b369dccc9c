//! The programs that the documentation names, run as a user runs them.

use std::time::Duration;

use outbox_it::Process;
use outbox_it::process::build;

async fn last_line_of(
    package: &str,
    binary: &str,
    arguments: &[&str],
    env: &[(&str, &str)],
    limit: Duration,
) -> String {
    let program = build(package, binary);
    let mut process = Process::spawn(&program, arguments, env);
    let status = process.wait(limit).await;
    let lines = process.lines();
    assert!(status.success(), "{binary} ended with {status}: {lines:#?}");
    lines.iter().rev().find(|line| line.contains('=')).cloned().unwrap_or_default()
}

/// Two services, each killed with SIGKILL while work is in flight: every order has exactly one reservation.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_the_demo_of_the_orders_example_ends_with_nothing_lost_and_nothing_doubled() {
    let line = last_line_of("orders-example", "demo", &["--orders", "100"], &[], Duration::from_secs(300)).await;
    assert_eq!(line, "orders=100 published=100 reservations=100 lost=0 doubled=0");
}

/// The same without RabbitMQ: the database that both services share is the broker. A server that is not there shows that none is asked.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_the_demo_of_the_orders_example_needs_no_broker_but_the_database() {
    let arguments = ["--orders", "100", "--broker", "database"];
    let nowhere = [("AMQP_URL", "amqp://guest:guest@127.0.0.1:1/%2f")];
    let line = last_line_of("orders-example", "demo", &arguments, &nowhere, Duration::from_secs(300)).await;
    assert_eq!(line, "orders=100 published=100 reservations=100 lost=0 doubled=0");
}

/// The memory of a relay depends neither on the backlog nor on the size of bodies (the program exits with 1 at 128 MiB).
#[tokio::test(flavor = "multi_thread")]
async fn alone_a_relay_stays_within_its_memory() {
    for (kind, rows) in [("pending", "60000"), ("large", "300")] {
        let line = last_line_of("outbox-bench", "relay-memory", &[kind, rows], &[], Duration::from_secs(240)).await;
        assert!(line.contains(&format!("relay-memory {kind} rows={rows} published={rows}")), "{line}");
    }
}

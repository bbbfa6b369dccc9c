//! SIGTERM ends a service in order; a second signal ends it at once.

use std::path::Path;
use std::time::{Duration, Instant};

use outbox_it::Process;

use crate::world::World;

fn sleeper(world: &World, shutdown_seconds: &str) -> Process {
    let (database, broker) = (world.db.url(), world.vhost.url().to_owned());
    let environment = [
        ("DATABASE_URL", database.as_str()),
        ("AMQP_URL", broker.as_str()),
        ("OUTBOX_SHUTDOWN_SECONDS", shutdown_seconds),
    ];
    Process::spawn(Path::new(env!("CARGO_BIN_EXE_sleeper")), &[], &environment)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_nothing_to_do_ends_at_once_on_sigterm() {
    let world = World::new().await;
    let mut service = sleeper(&world, "20");
    let wire = world.wire().await;
    outbox_it::eventually(Duration::from_secs(20), "subscribed", async || wire.consumers("sleeper").await == Some(1))
        .await;
    let started = Instant::now();
    service.signal("TERM");
    let status = service.wait(Duration::from_secs(10)).await;
    assert_eq!(status.code(), Some(0), "{:?}", service.lines());
    assert!(started.elapsed() < Duration::from_secs(8));
}

/// The handler does not end: the shutdown timeout drops it, nothing is spent, and the event is delivered again.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_does_not_end_is_dropped_after_the_shutdown_timeout() {
    let world = World::new().await;
    let mut service = sleeper(&world, "1");
    world.enqueue(0, 1).await;
    service.wait_for_line("asleep", Duration::from_secs(20)).await;
    service.signal("TERM");
    let status = service.wait(Duration::from_secs(15)).await;
    assert_eq!(status.code(), Some(0), "{:?}", service.lines());
    assert_eq!(world.db.count("parked_messages", "true").await, 0);
    assert_eq!(world.db.count("inbox_messages", "true").await, 0);
    let mut again = sleeper(&world, "1");
    again.wait_for_line("asleep", Duration::from_secs(20)).await;
    again.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_process_at_once() {
    let world = World::new().await;
    let mut service = sleeper(&world, "60");
    world.enqueue(0, 1).await;
    service.wait_for_line("asleep", Duration::from_secs(20)).await;
    service.signal("TERM");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(service.status().is_none(), "it waits for its handler");
    let started = Instant::now();
    service.signal("INT");
    let status = service.wait(Duration::from_secs(10)).await;
    assert_eq!(status.code(), Some(130), "{:?}", service.lines());
    assert!(started.elapsed() < Duration::from_secs(5));
}

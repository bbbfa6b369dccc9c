//! Returned messages are neither kept nor told.

use std::path::Path;
use std::time::{Duration, Instant};

use outbox_it::Process;

use crate::producing::{Unwanted, commit, tap};
use crate::world::{ORDER_CREATED, OrderCreated, World};

/// F18: amqp-rs/lapin#157, #431: confirms and returns pile up, and lapin logs whole returned bodies. Half a minute of load with every tenth
/// event unroutable, on a relay of its own: after the warm-up its memory stays, and no log line has a body.
#[tokio::test(flavor = "multi_thread")]
async fn alone_memory_stays_and_no_body_is_logged_while_events_come_back() {
    const MARK: &str = "a-secret-of-the-body";
    const GONE: &str = "WITH gone AS (DELETE FROM outbox_messages WHERE status = 'Pending' AND attempt_count > 0 RETURNING attempt_count) \
                        SELECT COALESCE(sum(attempt_count), 0)::bigint FROM gone";
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", ORDER_CREATED).await;
    let database = world.db.url();
    let env = [
        ("DATABASE_URL", database.as_str()),
        ("AMQP_URL", world.vhost.url()),
        // Whatever lapin says at WARN, and all that we say.
        ("RUST_LOG", "warn,lapin=debug,outbox_runtime=debug,outbox=debug"),
    ];
    let relay = Process::spawn(Path::new(env!("CARGO_BIN_EXE_relay")), &[], &env);
    relay.wait_for_line("relay started", Duration::from_secs(20)).await;
    let padding = MARK.repeat(50);
    let began = Instant::now();
    let (mut n, mut returned, mut samples) = (0, 0, Vec::new());
    while began.elapsed() < Duration::from_secs(30) {
        let drafts = (n..n + 200).map(|n| {
            let order_id = format!("{n:06}-{}", &padding[..240]);
            if n % 10 == 0 { Unwanted { order_id }.draft() } else { OrderCreated { order_id, quantity: 1 }.draft() }
        });
        commit(&world.db, drafts).await;
        n += 200;
        // The queue is the broker's memory, not ours; and what came back once goes away, or its retries would make the load grow.
        wire.purge("orders").await;
        returned += world.db.number(GONE).await;
        samples.push((began.elapsed(), relay.resident_kib()));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let of = |from: u64, to: u64| -> u64 {
        let within = |at: &Duration| (from..to).contains(&at.as_secs());
        samples.iter().filter(|(at, _)| within(at)).map(|(_, kib)| *kib).max().unwrap_or_default()
    };
    let (warm, last) = (of(5, 12), of(23, 30));
    println!("{n} events, {returned} returns; resident {warm} KiB after the warm-up, {last} KiB at the end");
    assert!(returned > 500, "{returned} returns are no load");
    assert!(warm > 1_000, "{samples:?}");
    // The allocator rounds; what was kept of 1 KB per return and confirm would be more.
    assert!(last < warm + warm / 10 + 2_048, "it grew from {warm} to {last} KiB: {samples:?}");

    let lines = relay.lines();
    assert!(lines.iter().any(|line| line.contains("held")), "the relay logs: {lines:?}");
    let decimal: Vec<String> = MARK.bytes().map(|byte| byte.to_string()).collect();
    for secret in [MARK.to_owned(), decimal.join(", "), decimal.join(",")] {
        let told: Vec<_> = lines.iter().filter(|line| line.contains(&secret)).take(3).collect();
        assert!(told.is_empty(), "the log tells {secret:?}: {told:?}");
    }
}

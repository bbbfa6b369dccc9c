//! One row that the broker will not have, in the middle of many that it will.

use std::time::Duration;

use outbox::{Enqueue, Role};
use outbox_it::{OwnBroker, TestDatabase};
use serde_json::Value;

use crate::producing::{AuditNoted, Raw, Unwanted, commit, errors, relay, rows, take, tally, tap};
use crate::world::{OrderCreated, World, builder, prepare};

const SOON: Duration = Duration::from_secs(40);

/// R3: a body above the broker's `max_message_size` closes the channel of its whole batch. It alone is refused and Failed in the end; the
/// other 500 are Published, and nothing of their budget is spent.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_row_that_closes_its_channel_is_refused_alone() {
    let broker = OwnBroker::start_with(&["max_message_size = 100000"]).await;
    let db = TestDatabase::new().await;
    prepare(&db).await;
    let wire = broker.wire().await;
    tap(&wire, "orders", "orders.events", "#").await;
    let large = Raw(Value::from("x".repeat(200_000)));
    let drafts = (0..501).map(|n| if n == 37 { large.draft() } else { OrderCreated::number(n).draft() });
    let ids = commit(&db, drafts).await;
    let poison = format!("event_id = '{}'", ids[37]);
    db.execute(&format!("UPDATE outbox_messages SET max_attempts = 2 WHERE {poison}")).await;
    let runtime = builder(db.url(), &broker.url(), []).role(Role::Relay).start().await.unwrap();
    rows(&db, "status = 'Published' AND attempt_count = 0", 500, SOON).await;
    rows(&db, &format!("{poison} AND status = 'Failed' AND attempt_count = 2"), 1, SOON).await;
    let error = &errors(&db, &poison).await[0];
    println!("{error}");
    for part in ["406", "PRECONDITION_FAILED", "\"orders.events\"", "\"blob.raw\""] {
        assert!(error.contains(part), "{part} in {error}");
    }
    assert!(!error.contains("xxxx"), "no body in an error");
    // At least once: a half of a closed channel may have been at the broker already.
    let tally = tally(&take(&wire, "orders", 500).await);
    assert_eq!(tally.len(), 500);
    assert!(!tally.contains_key(&ids[37]));
    let publisher = runtime.health().component("broker publisher").unwrap().clone();
    assert!(publisher.up && publisher.failures <= 1, "only channels were closed: {publisher:?}");
    runtime.shutdown().await;
}

/// R3: headers above a small `frame_max` close the whole connection, with everything that is under way on its other channels. The row that
/// does it is found and refused; no other event of any exchange pays for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_closes_the_connection_is_refused_alone() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", "#").await;
    tap(&wire, "audit", "audit.events", "#").await;
    let url = format!("{}?frame_max=8192", world.vhost.url());
    let poison = Enqueue::new().header("large", "x".repeat(30_000));
    let draft = |n: usize| {
        if n == 37 {
            outbox::Draft::new(&OrderCreated::number(n), poison.clone())
        } else {
            OrderCreated::number(n).draft()
        }
    };
    let ids = commit(&world.db, (0..100).map(draft)).await;
    let poison = format!("event_id = '{}'", ids[37]);
    world.db.execute(&format!("UPDATE outbox_messages SET max_attempts = 2 WHERE {poison}")).await;
    let runtime = builder(world.db.url(), &url, []).role(Role::Relay).start().await.unwrap();
    // Single events on the other channel meanwhile: a connection that closes under them is not their doing.
    let mut notes = 0;
    let failed = format!("{poison} AND status = 'Failed'");
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    while world.db.count("outbox_messages", &failed).await == 0 {
        assert!(
            tokio::time::Instant::now() < end,
            "not Failed: {:?}",
            errors(&world.db, "status <> 'Published'").await
        );
        commit(&world.db, [AuditNoted { order_id: format!("note-{notes}") }.draft()]).await;
        notes += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rows(&world.db, "status = 'Published' AND exchange = 'orders.events'", 99, SOON).await;
    rows(&world.db, "status = 'Published' AND exchange = 'audit.events'", notes, SOON).await;
    assert_eq!(world.db.count("outbox_messages", "status = 'Published' AND attempt_count > 0").await, 0);
    assert!(errors(&world.db, &poison).await[0].contains("501"), "{:?}", errors(&world.db, &poison).await);
    let tally = tally(&take(&wire, "orders", 99).await);
    assert_eq!(tally.len(), 99);
    assert!(!tally.contains_key(&ids[37]));
    runtime.shutdown().await;
}

/// R3, R4: returned events spend their own attempts with backoff, beside a hundred that go out.
#[tokio::test(flavor = "multi_thread")]
async fn returned_events_do_not_slow_down_the_others() {
    let world = World::new().await;
    let wire = world.wire().await;
    tap(&wire, "orders", "orders.events", "order.created").await;
    commit(&world.db, (0..200).map(|n| Unwanted { order_id: n.to_string() }.draft())).await;
    let runtime = relay(&world).start().await.unwrap();
    rows(&world.db, "status = 'Pending' AND attempt_count >= 1", 200, SOON).await;
    commit(&world.db, (0..500).map(|n| OrderCreated::number(n).draft())).await;
    rows(&world.db, "status = 'Published' AND attempt_count = 0", 500, Duration::from_secs(10)).await;
    assert_eq!(world.db.count("outbox_messages", "event_type = 'order.unwanted' AND attempt_count = 0").await, 0);
    assert_eq!(take(&wire, "orders", 500).await.len(), 500);
    runtime.shutdown().await;
}

//! C3, C7: a message that takes the process with it, every time.
//!
//! The process is this test binary itself, started with [`child`] as its only test.

use std::time::Duration;

use outbox_it::Process;

use crate::scripted::{Act, Script, inbox_state, parked, quick, runtime_at};
use crate::world::{OrderCreated, World, no_doubles};

const KILLER: usize = 666_666;

/// What the killed process is: one instance, until it dies.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of the test below"]
async fn child() {
    let (Ok(database), Ok(broker)) = (std::env::var("OUTBOX_IT_CHILD_DB"), std::env::var("OUTBOX_IT_CHILD_AMQP"))
    else {
        return;
    };
    let script = Script::new(|order, _| {
        if order == OrderCreated::number(KILLER).order_id {
            std::process::abort();
        }
        Act::sleep(20)
    });
    let runtime = runtime_at(&database, &broker, &script, quick()).start().await.unwrap();
    runtime.run().await.unwrap();
}

fn start(world: &World) -> Process {
    let (database, broker) = (world.db.url(), world.vhost.url().to_owned());
    let env =
        [("OUTBOX_IT_CHILD_DB", database.as_str()), ("OUTBOX_IT_CHILD_AMQP", broker.as_str()), ("RUST_BACKTRACE", "0")];
    let args = ["killer::child", "--exact", "--ignored", "--nocapture"];
    Process::spawn(&std::env::current_exe().unwrap(), &args, &env)
}

/// C3, C7: the process dies in every run of one message. The broker gives up on it after its delivery limit, the drain parks it to run alone, each
/// claim is an attempt, and when they are spent it is Dead. The innocent ones are handled, once.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_message_that_kills_the_process_every_time_comes_to_an_end() {
    let world = World::new().await;
    // The queue, before anything kills.
    let script = Script::done();
    let first = runtime_at(&world.db.url(), world.vhost.url(), &script, quick()).start().await.unwrap();
    world.enqueue(0, 1).await;
    world.settled(1, Duration::from_secs(20)).await;
    first.shutdown().await;
    crate::scripted::enqueue_as(&world.db, KILLER, "killer").await;
    world.enqueue(1, 40).await;

    let mut deaths = 0;
    let limit = std::time::Instant::now() + Duration::from_secs(200);
    let mut child = start(&world);
    loop {
        assert!(
            std::time::Instant::now() < limit,
            "it comes to no end after {deaths} deaths: {:?}",
            parked(&world.db).await
        );
        if child.status().is_some() {
            deaths += 1;
            // The lease of a dead process runs out in a minute; a test need not wait for it.
            world.db.execute("UPDATE parked_messages SET locked_until = now() WHERE locked_until > now()").await;
            world.db.execute("UPDATE outbox_messages SET locked_until = now() WHERE locked_until > now()").await;
            child = start(&world);
        }
        let dead = inbox_state(&world.db, "killer").await.as_deref() == Some("Dead");
        if dead && world.db.number("SELECT count(DISTINCT order_id) FROM effects").await == 40 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let row = parked(&world.db).await.into_iter().find(|row| row.event_id.as_deref() == Some("killer")).unwrap();
    assert_eq!((row.status.as_str(), row.reason.as_str(), row.isolated), ("Dead", "attempts spent", true));
    assert!(row.error.contains("never came to an end"), "{}", row.error);
    println!("{deaths} deaths");
    assert!((4..40).contains(&deaths), "{deaths}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(child.status().is_none(), "it kills nobody any more");
    no_doubles(&world.db).await;
    assert_eq!(world.db.count("effects", "order_id = 'order-666666'").await, 0);
    let wire = world.wire().await;
    assert_eq!((wire.ready("scripted").await, wire.ready("scripted.dead").await), (Some(0), Some(0)));
}

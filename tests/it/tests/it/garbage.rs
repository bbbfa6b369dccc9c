//! C6, C8: messages that make no sense are kept, told and never in anybody's way.

use std::collections::BTreeMap;
use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::AMQPValue;
use outbox_it::rabbit_wire::{table, text};
use outbox_it::{Logs, eventually};

use crate::parked_retry::copy_of;
use crate::scripted::{Script, effects_of, parked, quick, runtime};
use crate::world::{ORDER_CREATED, World, no_doubles};

const SOON: Duration = Duration::from_secs(30);
const SECRET: &str = "4111-secret-1111";

fn of_type(kind: &str) -> BasicProperties {
    BasicProperties::default().with_type(kind.into()).with_delivery_mode(2)
}

/// C6, C8, F12: each kind of garbage is Dead at once with its reason, its body kept byte for byte; the first event's dedup record stays as it is; ten
/// good events after them are handled; no value of a body is in a log line or in an error.
#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_dead_with_its_reason_and_the_good_events_after_it_are_handled() {
    let logs = Logs::capture();
    let world = World::new().await;
    let script = Script::done();
    let runtime = runtime(&world, &script, quick()).start().await.unwrap();
    let wire = world.wire().await;
    let (properties, body) = copy_of(1, "first");
    eventually(SOON, "the queue is there", async || wire.ready("scripted").await.is_some()).await;
    assert!(wire.publish("", "scripted", properties, &body).await);
    eventually(SOON, "the first one is handled", async || effects_of(&world.db, 1).await == 1).await;
    let record = "SELECT (extract(epoch FROM decided_at) * 1000000)::bigint FROM inbox_messages WHERE event_id = 'first' AND state = 'Processed'";
    let decided = world.db.number(record).await;

    let flat = |id: &str, rest: &str| {
        format!(r#"{{"eventId":"{id}","eventType":"order.created","occurredAt":"2026-01-01T00:00:00Z",{rest}}}"#)
            .into_bytes()
    };
    let fields = format!(r#""order_id":"{SECRET}","quantity":1"#);
    let version = |n: i64| table([("outbox-event-version", AMQPValue::LongLongInt(n))]);
    let with_id = |id: &str| of_type(ORDER_CREATED).with_message_id(id.into());
    let huge = [flat("huge", &fields), vec![b' '; 16 * 1024 * 1024]].concat();
    let garbage: Vec<(&str, &str, BasicProperties, Vec<u8>)> = vec![
        (
            "wrong type of a field",
            "undecodable",
            with_id("g1"),
            flat("g1", &format!(r#""order_id":"x","quantity":"{SECRET}""#)),
        ),
        ("missing field", "undecodable", with_id("g2"), flat("g2", &format!(r#""other":"{SECRET}""#))),
        ("not JSON", "undecodable", with_id("g3"), format!("{SECRET} is not JSON").into_bytes()),
        ("not UTF-8", "undecodable", with_id("g4"), [b"\xff\xfe\x00", SECRET.as_bytes()].concat()),
        ("empty", "undecodable", with_id("g5"), Vec::new()),
        ("JSON that ends too early", "undecodable", with_id("g6"), format!(r#"{{"order_id":"{SECRET}"#).into_bytes()),
        ("no id", "no id", of_type(ORDER_CREATED), format!("{{{fields}}}").into_bytes()),
        ("not UTF-8, without an id", "no id", of_type(ORDER_CREATED), [b"\xff\xfe\x00", SECRET.as_bytes()].concat()),
        ("ids disagree", "ids disagree", with_id("g8"), flat("another", &fields)),
        (
            "header and property disagree",
            "ids disagree",
            with_id("g9").with_headers(table([("outbox-event-id", text("another"))])),
            format!("{{{fields}}}").into_bytes(),
        ),
        ("long id", "bad id", with_id(&"x".repeat(65)), format!("{{{fields}}}").into_bytes()),
        ("control character", "bad id", with_id("a\nb"), format!("{{{fields}}}").into_bytes()),
        ("NUL", "bad id", with_id("a\0b"), format!("{{{fields}}}").into_bytes()),
        (
            "unknown event",
            "unknown event",
            of_type("order.eaten").with_message_id("g12".into()),
            format!("{{{fields}}}").into_bytes(),
        ),
        (
            "no event",
            "unknown event",
            BasicProperties::default().with_message_id("g13".into()),
            format!("{{{fields}}}").into_bytes(),
        ),
        ("unknown version", "unknown version", with_id("g14").with_headers(version(7)), flat("g14", &fields)),
        (
            "NUL in a header",
            "undecodable",
            with_id("g15").with_headers(table([("tenant", text("a\0b"))])),
            SECRET.as_bytes().to_vec(),
        ),
        ("too large", "oversize", with_id("huge"), huge),
        ("same id, other fields", "id reused", with_id("first"), flat("first", &fields)),
        (
            "same id, another event",
            "id reused",
            of_type("order.eaten").with_message_id("first".into()),
            copy_of(1, "first").1,
        ),
        (
            "a dead one's id, other fields",
            "id reused",
            of_type("order.eaten").with_message_id("g12".into()),
            b"{}".to_vec(),
        ),
    ];
    let mut want = BTreeMap::<(String, Vec<u8>), usize>::new();
    for (what, reason, properties, body) in garbage.clone() {
        assert!(wire.publish("", "scripted", properties, &body).await, "{what}");
        *want.entry((reason.to_owned(), body)).or_default() += 1;
    }
    world.enqueue(10, 20).await;
    world.settled(11, SOON).await;
    let all = async || i64::try_from(garbage.len()).unwrap() == world.db.count("parked_messages", "true").await;
    eventually(SOON, "all of it is parked", all).await;
    let rows = parked(&world.db).await;
    for (what, reason, _, body) in &garbage {
        let row = rows.iter().find(|row| row.reason == *reason && row.body == *body);
        let row = row.unwrap_or_else(|| panic!("{what}: not parked as {reason} with its body"));
        assert_eq!((row.status.as_str(), row.attempts <= 1, row.locked_by.as_deref()), ("Dead", true, None), "{what}");
        assert!(!row.error.is_empty() && !row.error.contains("secret"), "{what}: {}", row.error);
    }
    let mut got = BTreeMap::<(String, Vec<u8>), usize>::new();
    for row in rows {
        *got.entry((row.reason, row.body)).or_default() += 1;
    }
    assert!(got == want, "each once");
    assert_eq!(world.db.number(record).await, decided, "the first one's record is as it was");
    assert_eq!(script.runs().len(), 11, "no garbage reached the handler");
    no_doubles(&world.db).await;
    let empty = async || world.vhost.queues(&["name", "messages"]).await.iter().all(|queue| queue["messages"] == 0);
    eventually(SOON, "all is acked", empty).await;
    logs.assert_absent(SECRET);
    runtime.shutdown().await;
}

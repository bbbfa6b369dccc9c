//! Rows that somebody wrote or edited by hand: each is kept with its reason, and everything else flows.

use outbox::Role;
use outbox_it::eventually;

use super::place::{NOBODYS_EXCHANGE, Place, SOON};
use super::stores::TestStore;
use crate::scripted::{Script, quick};

const SECRET: &str = "4111-secret-1111";

/// A row of `order.created` as SQL by hand brings it, with columns changed as in `UPDATE .. SET`.
async fn row<S: TestStore>(place: &Place<S>, id: &str, set: &str) {
    place
        .execute(&format!(
            r#"INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes, max_attempts)
               VALUES ('{id}', 'order', '{id}', 'order.created', 'orders.events', 'order.created',
                       '{{"eventId":"{id}","eventType":"order.created","occurredAt":"2026-01-01T00:00:00Z","order_id":"{id}","quantity":1}}', 100, 2);
               UPDATE outbox_messages SET {set} WHERE event_id = '{id}'"#
        ))
        .await;
}

matrix! {
    /// What cannot be sent is Failed, what has nowhere to go is held, what no handler can read is Dead: each with the reason, and the body in no text.
    async fn a_row_that_was_spoiled_by_hand_is_kept_with_its_reason_and_alone(place) {
        let [first, last] = S::ABSURD_TIMES;
        let failed = [
            ("headers-list", "headers = '[1]'".to_owned(), "headers"),
            ("headers-number", "headers = '4111'".to_owned(), "headers"),
            ("occurred-never", format!("occurred_at = {first}"), "occurred_at"),
            ("occurred-late", format!("occurred_at = {last}"), "occurred_at"),
            ("enqueued-never", format!("enqueued_at = {first}"), "enqueued_at"),
            ("enqueued-late", format!("enqueued_at = {last}"), "enqueued_at"),
        ];
        let held = [
            ("no-exchange", format!("exchange = '{NOBODYS_EXCHANGE}', unroutable = 'hold'"), NOBODYS_EXCHANGE),
            ("no-binding", "routing_key = 'order.eaten', unroutable = 'hold'".to_owned(), "order.eaten"),
            ("no-key", "routing_key = '', unroutable = 'hold'".to_owned(), "orders.events"),
        ];
        let body = |body: &str| format!("payload = '{}'", body.replace("ID", SECRET));
        let dead = [
            ("undecodable", "wrong-field", body(r#"{"eventId":"wrong-field","order_id":"ID","quantity":"many"}"#)),
            ("undecodable", "missing-field", body(r#"{"eventId":"missing-field","other":"ID"}"#)),
            ("undecodable", "list", body(r#"["ID"]"#)),
            ("undecodable", "null", body("null")),
            ("ids disagree", "other-id", body(r#"{"eventId":"another","order_id":"ID","quantity":1}"#)),
            ("unknown event", "other-type", "event_type = 'order.eaten'".to_owned()),
            ("unknown version", "other-version", "event_version = 7".to_owned()),
        ];
        let fine = [
            // The body says its form.
            ("other-envelope", "envelope = 'parcel'".to_owned()),
            ("due-for-ever", format!("next_attempt_at = {first}")),
            ("first-number", "sequence = -9223372036854775808".to_owned()),
            ("last-number", "sequence = 9223372036854775807".to_owned()),
            ("no-bytes", "payload_bytes = 0".to_owned()),
            ("many-bytes", "payload_bytes = 2147483647".to_owned()),
            ("tried-for-ever", "attempt_count = 2147483647, unknown_count = 2147483647, max_attempts = 2147483647".to_owned()),
        ];
        let script = Script::done();
        let consumer = place.scripted(&script, quick()).role(Role::Consume).start().await.unwrap();
        eventually(SOON, "ready", async || consumer.health().ready).await;
        for (id, set, _) in failed.iter().chain(&held) {
            row(place, id, set).await;
        }
        for (_, id, set) in &dead {
            row(place, id, set).await;
        }
        for (id, set) in &fine {
            row(place, id, set).await;
        }
        place.enqueue(0, 50).await;
        let relay = place.runtime([]).role(Role::Relay).start().await.unwrap();
        place.settled(50 + fine.len()).await;
        place.rows_become("outbox_messages", "status = 'Failed' AND attempt_count = 2", failed.len()).await;
        place.rows_become("parked_messages", "status = 'Dead'", dead.len()).await;
        // Beside their retries all else flows, from each of the queues.
        place.enqueue(50, 100).await;
        place.settled(100 + fine.len()).await;
        place.rows_become("outbox_messages", "status = 'Pending' AND attempt_count >= 2", held.len()).await;
        for (id, _, part) in failed.iter().chain(&held) {
            let error = place.texts(&format!("SELECT COALESCE(last_error, '') FROM outbox_messages WHERE event_id = '{id}'")).await;
            assert!(error[0].contains(part), "{id}: {error:?}");
        }
        let parked = place.parked().await;
        for (reason, id, _) in &dead {
            let row = parked.iter().find(|row| row.event_id == *id || *id == "other-id" && row.reason == *reason);
            let row = row.unwrap_or_else(|| panic!("{id} is not parked: {parked:?}"));
            assert_eq!(row.reason, *reason, "{id}: {}", row.error);
            assert!(!row.error.is_empty() && !row.error.contains(SECRET), "{id}: {}", row.error);
        }
        assert_eq!(place.count("outbox_messages", "status = 'Published' AND event_id LIKE '0%' AND attempt_count = 0").await, 100);
        for (runtime, what) in [(&relay, "relay"), (&consumer, "consumer")] {
            let health = runtime.health();
            assert!(health.ready, "{what}: {health}");
            assert!(health.components.iter().filter(|part| part.name.starts_with("loop")).all(|part| part.failures == 0), "{what}: {health}");
        }
        relay.shutdown().await;
        consumer.shutdown().await;
    }

    /// What no code could make sense of does not come into the table at all.
    async fn the_table_refuses_what_no_row_may_be(place) {
        row(place, "row", "event_version = 1").await;
        for set in [
            "status = 'Lost'",
            "status = ''",
            "status = NULL",
            "status = 'Published'",
            "status = 'Processing'",
            "locked_by = 'me'",
            "unroutable = 'drop'",
            "on_failed = 'stop'",
            "max_attempts = 0",
            "backoff_first = 0",
            "exchange = ''",
            "event_type = ''",
            "event_id = ''",
            "payload = 'not JSON'",
            "payload = NULL",
            "headers = 'not JSON'",
            "enqueued_at = NULL",
        ] {
            let sql = format!("UPDATE outbox_messages SET {set}");
            assert!(place.try_execute(&sql).await.is_err(), "taken: {set}");
        }
        assert_eq!(place.count("outbox_messages", "status = 'Pending'").await, 1);
    }
}

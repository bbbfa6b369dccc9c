//! What a producer says of an event beside its fields, and what the row then holds: policies and the time at which it is due.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outbox::{Draft, Enqueue};

use crate::matrix::stores::TestStore;
use crate::on_stores::on_each_store;
use crate::ordered_enqueue::AccountChanged;
use crate::world::OrderCreated;

/// Every policy that there is, other than the default.
#[outbox::event(
    name = "payment.requested", exchange = "orders.events", key = account, ordered,
    unroutable = "fail", max_attempts = 7, max_age = "2h", on_failed = "skip", backoff = "250ms..90s"
)]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct PaymentRequested {
    account: String,
}

/// The same without order.
#[outbox::event(
    name = "payment.noted",
    unroutable = "discard",
    max_attempts = 2147483647,
    max_age = "8760h",
    backoff = "168h..168h"
)]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct PaymentNoted {}

fn policies<S: TestStore>() -> String {
    let age = if S::TITLE == "SQLite" { "max_age / 1000" } else { "(extract(epoch FROM max_age) * 1000)::bigint" };
    format!(
        "SELECT DISTINCT event_type || ' ' || unroutable || ' ' || CAST(max_attempts AS text) || ' ' || COALESCE(CAST({age} AS text), '-') || ' ' || on_failed
                || ' ' || CAST(backoff_first AS text) || ' ' || CAST(backoff_longest AS text) FROM outbox_messages ORDER BY 1"
    )
}

/// Milliseconds from the enqueue to when it is due, by event id.
fn delays<S: TestStore>() -> String {
    let millis = if S::TITLE == "SQLite" {
        "CAST((next_attempt_at - (SELECT enqueued_at FROM outbox_messages WHERE event_id = '1-now')) / 1000 AS text)"
    } else {
        "(extract(epoch FROM next_attempt_at - (SELECT enqueued_at FROM outbox_messages WHERE event_id = '1-now')) * 1000)::bigint::text"
    };
    format!("SELECT event_id, {millis} FROM outbox_messages ORDER BY event_id")
}

on_each_store! {
    /// S1: the policies stand in the row, whichever statement wrote it.
    async fn policies_travel_with_the_row(place) {
        let payment = PaymentRequested { account: "a".into() };
        let (noted, order) = (PaymentNoted {}, OrderCreated::number(1));
        let mut tx = place.begin().await;
        payment.enqueue(&mut tx).await.unwrap();
        noted.enqueue(&mut tx).await.unwrap();
        order.enqueue(&mut tx).await.unwrap();
        outbox::enqueue_all(&mut tx, [noted.draft(), order.draft()]).await.unwrap();
        outbox::enqueue_all(&mut tx, [payment.draft(), noted.draft(), order.draft()]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(place.count("outbox_messages", "true").await, 8);
        assert_eq!(
            place.texts(&policies::<S>()).await,
            [
                "order.created hold 20 - block 1000 60000",
                "payment.noted discard 2147483647 31536000000 block 604800000 604800000",
                "payment.requested fail 7 7200000 skip 250 90000",
            ]
        );
    }

    /// By the database's clock at the enqueue, not at the transaction's begin.
    async fn an_event_is_due_at_its_time_or_after_its_delay(place) {
        let at = UNIX_EPOCH + Duration::from_micros(4_000_000_000_123_456);
        let order = OrderCreated::number(1);
        let draft = |id: &str, options: Enqueue| Draft::new(&order, options.event_id(id));
        let mut tx = place.begin().await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        order.enqueue_with(&mut tx, Enqueue::new().event_id("1-now")).await.unwrap();
        order.enqueue_with(&mut tx, Enqueue::new().event_id("1-after").after(Duration::from_secs(600))).await.unwrap();
        order.enqueue_with(&mut tx, Enqueue::new().event_id("1-at").at(at)).await.unwrap();
        let unordered = [
            draft("2-now", Enqueue::new()),
            draft("2-after", Enqueue::new().after(Duration::from_millis(90_500))),
            draft("2-at", Enqueue::new().at(at)),
        ];
        outbox::enqueue_all(&mut tx, unordered).await.unwrap();
        let mixed = [
            AccountChanged { account: "a".into(), step: 1 }.draft(),
            draft("3-now", Enqueue::new()),
            draft("3-after", Enqueue::new().after(Duration::from_secs(5 * 365 * 86_400))),
            draft("3-at", Enqueue::new().at(at)),
        ];
        outbox::enqueue_all(&mut tx, mixed).await.unwrap();
        tx.commit().await.unwrap();
        for row in place.rows(&delays::<S>()).await {
            let want = match row[0].as_str() {
                "1-after" => 600_000,
                "2-after" => 90_500,
                "3-after" => 5 * 365 * 86_400_000_i64,
                id if id.ends_with("at") => continue,
                _ => 0,
            };
            let found: i64 = row[1].parse().unwrap();
            assert!((want - 500..want + 500).contains(&found), "{row:?}, not {want}");
        }
        let time = if S::TITLE == "SQLite" { "next_attempt_at = 4000000000123456" } else { "next_attempt_at = '2096-10-02 07:06:40.123456+00'" };
        assert_eq!(place.count("outbox_messages", &format!("event_id LIKE '%at' AND {time}")).await, 3);
        // Its age counts from then: neither `max_age` nor a dedup window runs out while it waits for its time.
        let from_then = if S::TITLE == "SQLite" { "abs(enqueued_at - next_attempt_at) < 10000" } else { "abs(extract(epoch FROM enqueued_at - next_attempt_at)) < 0.01" };
        assert_eq!(place.count("outbox_messages", &format!("event_id LIKE '%-a%' AND {from_then}")).await, 6);
    }

    /// Everything that is wrong with a delay, with everything else, before anything is written.
    async fn a_delay_that_cannot_be_is_refused_with_all_else(place) {
        let mut tx = place.begin().await;
        let year_0 = UNIX_EPOCH - Duration::from_secs(62_167_219_201);
        let year_10000 = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        let ordered = AccountChanged { account: String::new(), step: 1 };
        let order = OrderCreated::number(1);
        let ordered_text = "it is `ordered` and cannot be delayed";
        let table: [(Draft, &[&str]); 6] = [
            (Draft::new(&ordered, Enqueue::new().after(Duration::ZERO)), &[ordered_text, "the key \"\" is empty"]),
            (
                Draft::new(&ordered, Enqueue::new().at(year_0).after(Duration::MAX).event_id("")),
                &[ordered_text, "`at` and `after` are both given", "`at` is outside the years", "the time that `after` leads to is outside the years", "event id", "account.changed"],
            ),
            (Draft::new(&order, Enqueue::new().at(year_10000)), &["`at` is outside the years 1 to 9999"]),
            (Draft::new(&order, Enqueue::new().after(Duration::from_secs(300_000_000_000))), &["the time that `after` leads to"]),
            (Draft::new(&order, Enqueue::new().at(SystemTime::now()).after(Duration::from_secs(1))), &["are both given"]),
            (Draft::new(&order, Enqueue::new().occurred_at(year_10000).at(year_0)), &["`occurred_at` is outside", "`at` is outside"]),
        ];
        for (draft, parts) in table {
            let error = outbox::enqueue_all(&mut tx, [draft]).await.unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{part:?} is missing in: {error}");
            }
        }
        let last = year_10000 - Duration::from_secs(1);
        order.enqueue_with(&mut tx, Enqueue::new().at(last)).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(place.count("outbox_messages", "true").await, 1);
    }
}

//! Budgets (R3, R4): when an event that no queue wants is given up, and when never.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outbox::{Alert, Role};
use outbox_it::eventually;

use super::place::SOON;

/// Given up after three tries.
#[outbox::event(name = "offer.made", exchange = "orders.events", key = offer, unroutable = "fail", max_attempts = 3, backoff = "50ms..100ms")]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct OfferMade {
    offer: String,
}

/// Given up after two seconds, however often it was tried.
#[outbox::event(
    name = "offer.ended", exchange = "orders.events", key = offer, unroutable = "fail", max_attempts = 1000, max_age = "2s", backoff = "50ms..100ms"
)]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct OfferEnded {
    offer: String,
}

matrix! {
    /// R4: `unroutable = "fail"`: Failed when the attempts are spent, or when the age is, and a person is told where it was to go.
    async fn an_event_is_failed_when_its_attempts_or_its_age_are_spent(place) {
        let alerts = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&alerts);
        let builder = place.runtime([]).role(Role::Relay).on_alert(move |alert| {
            noted.lock().unwrap().push(alert);
            async {}
        });
        let written = Instant::now();
        place.commit([OfferMade { offer: "a".into() }.draft(), OfferEnded { offer: "b".into() }.draft()]).await;
        let relay = builder.start().await.unwrap();
        place.rows_become("outbox_messages", "status = 'Failed' AND event_type = 'offer.made' AND attempt_count = 3", 1).await;
        place.rows_become("outbox_messages", "status = 'Failed' AND event_type = 'offer.ended' AND attempt_count BETWEEN 2 AND 999", 1).await;
        assert!(written.elapsed() >= Duration::from_secs(2), "before its time: {:?}", written.elapsed());
        let failed = || alerts.lock().unwrap().iter().filter(|alert| matches!(alert, Alert::EventFailed { .. })).cloned().collect::<Vec<_>>();
        eventually(SOON, "both alerts", async || failed().len() == 2).await;
        relay.shutdown().await;
        let mut types = Vec::new();
        for alert in failed() {
            let Alert::EventFailed { event_type: kind, exchange: to, routing_key: key, error: text, attempts: tries, .. } = &alert else { unreachable!() };
            assert!(to.ends_with("orders.events") && key == kind, "{alert:?}");
            assert!(text.contains(&format!("{to:?}")) && text.contains(&format!("{key:?}")), "{alert:?}");
            let row = place.rows(&format!("SELECT last_error, CAST(attempt_count AS text) FROM outbox_messages WHERE event_type = '{kind}'")).await;
            assert_eq!(row, [[text.clone(), tries.to_string()]], "the row says the same");
            types.push(kind.clone());
        }
        types.sort();
        assert_eq!(types, ["offer.ended", "offer.made"], "each is told once");
    }

    /// R4: `unroutable = "hold"`: neither attempts nor age make it Failed; it goes out when a queue wants it.
    async fn a_held_event_is_never_failed_whatever_its_budget(place) {
        let alerts = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&alerts);
        place.enqueue(0, 3).await;
        let policies = format!("max_attempts = 1, max_age = {}, backoff_first = 50, backoff_longest = 100", S::age(500));
        place.execute(&format!("UPDATE outbox_messages SET {policies}")).await;
        let builder = place.runtime([]).role(Role::Relay).on_alert(move |alert| {
            noted.lock().unwrap().push(alert.kind());
            async {}
        });
        let relay = builder.start().await.unwrap();
        tokio::time::sleep(Duration::from_millis(600)).await;
        place.rows_become("outbox_messages", "attempt_count >= 8 AND status IN ('Pending', 'Processing')", 3).await;
        let consumer = place.runtime([S::handlers().stock]).role(Role::Consume).start().await.unwrap();
        place.settled(3).await;
        place.rows_become("outbox_messages", "status = 'Published'", 3).await;
        relay.shutdown().await;
        consumer.shutdown().await;
        let mut alerts = alerts.lock().unwrap().clone();
        alerts.retain(|kind| kind.starts_with("event_"));
        assert_eq!(alerts, ["event_held"; 3], "each is told once, and as held");
    }
}

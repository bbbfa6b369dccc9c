//! From the caller's transaction to the handlers: what was committed arrives, as it was written, and nothing else.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outbox::{Cancel, Draft, Enqueue, EnqueueError, EventId, EventStatus, trace};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::handlers::{PriceSet, Told};
use super::place::idle;
use crate::producing::AuditNoted;
use crate::world::OrderCreated;

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn order(n: usize, id: &str) -> Draft {
    Draft::new(&OrderCreated::number(n), Enqueue::new().event_id(id))
}

matrix! {
    /// Promises 1 to 3.
    async fn every_committed_event_has_one_effect_and_a_rolled_back_one_none(place) {
        let runtime = place.start([S::handlers().stock]).await;
        place.enqueue(0, 200).await;
        let mut tx = place.begin().await;
        OrderCreated::number(999).enqueue(&mut tx).await.unwrap();
        tx.rollback().await.unwrap();
        place.settled(200).await;
        idle(&runtime).await;
        place.no_doubles().await;
        assert_eq!(place.count("outbox_messages", "status = 'Published'").await, 200);
        assert_eq!(place.count("outbox_messages", "status <> 'Published'").await, 0);
        assert_eq!(place.count("inbox_messages", "state = 'Processed'").await, 200);
        runtime.shutdown().await;
    }

    /// S2: a repeated id is a typed error, and the caller's transaction goes on.
    async fn a_repeated_id_is_a_typed_error_and_the_transaction_goes_on(place) {
        let first = OrderCreated::number(1);
        let mut tx = place.begin().await;
        first.enqueue_with(&mut tx, Enqueue::new().event_id("mine")).await.unwrap();
        let error = first.enqueue_with(&mut tx, Enqueue::new().event_id("mine")).await.unwrap_err();
        assert!(matches!(&error, EnqueueError::Duplicate { ids } if ids[0] == "mine"), "{error}");
        first.enqueue(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(place.count("outbox_messages", "aggregate_id = 'order-000001'").await, 2);
    }

    /// S2: of many, all are written or none, and the error names the ids that were there.
    async fn of_many_events_of_any_type_all_are_written_or_none(place) {
        let mut tx = place.begin().await;
        let mixed = [order(1, "a"), order(2, "b"), AuditNoted { order_id: "x".into() }.draft()];
        let ids = outbox::enqueue_all(&mut tx, mixed).await.unwrap();
        assert_eq!((ids.len(), ids[0].as_str(), ids[1].as_str()), (3, "a", "b"), "in the order of the drafts");
        let error = outbox::enqueue_all(&mut tx, [order(3, "c"), order(4, "a"), order(5, "b")]).await.unwrap_err();
        assert_eq!(error.to_string(), "already in the outbox: a, b");
        let error = outbox::enqueue_all(&mut tx, [order(6, "d"), order(7, "d")]).await.unwrap_err();
        assert_eq!(error.to_string(), "already in the outbox: d");
        assert!(outbox::enqueue_all(&mut tx, []).await.unwrap().is_empty());
        tx.commit().await.unwrap();
        let rows = place.texts("SELECT event_type || ' ' || exchange || ' ' || aggregate_type FROM outbox_messages ORDER BY event_type").await;
        assert_eq!(
            rows,
            [
                "audit.noted audit.events audit",
                "order.created orders.events order",
                "order.created orders.events order"
            ]
        );
    }

    /// S2: bytes of a body come back as they went in. Through a number they would be 199 and 1e3 or 1000.0.
    async fn the_bytes_of_a_body_arrive_as_they_were_written(place) {
        let told = Told::default();
        let runtime = place.runtime([S::handlers().tells]).state(told.clone()).start().await.unwrap();
        let amounts = [
            "199.00",
            "1E3",
            "0.1000000000000000055511151231257827",
            "\"\\u00e9\\/ \u{1f600}\"",
            "{\"b\": 1,  \"a\": 2, \"a\":3}",
        ];
        let price = |n: usize, amount: &str| PriceSet {
            article: n.to_string(),
            amount: RawValue::from_string(amount.to_owned()).unwrap(),
        };
        place.commit(amounts.iter().enumerate().map(|(n, amount)| price(n, amount).draft())).await;
        place.settled(amounts.len()).await;
        let mut got: Vec<_> = told
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|(metadata, amount)| (metadata.key().unwrap().to_owned(), amount.clone()))
            .collect();
        got.sort();
        assert_eq!(got.into_iter().map(|(_, amount)| amount).collect::<Vec<_>>(), amounts);
        runtime.shutdown().await;
    }

    /// All that a handler can know of an event is the same on every way that it may take.
    async fn everything_in_the_metadata_reaches_the_handler(place) {
        let told = Told::default();
        let runtime = place.runtime([S::handlers().tells]).state(told.clone()).start().await.unwrap();
        let headers: BTreeMap<String, Value> = [
            ("tenant", json!("acme")),
            ("n", json!(i64::MAX)),
            ("half", json!(0.5)),
            ("yes", json!(true)),
            ("nothing", json!(null)),
            ("nested", json!({"list": [1, "two", {"three": []}], "euro": "€"})),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        let occurred_at = UNIX_EPOCH + Duration::from_micros(1_750_000_000_123_456);
        let mut options = Enqueue::new()
            .event_id("price-1")
            .correlation_id("checkout-17")
            .causation_id("click-3")
            .occurred_at(occurred_at);
        for (key, value) in &headers {
            options = options.header(key, value.clone());
        }
        let price = PriceSet { article: "article-1".into(), amount: RawValue::from_string("1".into()).unwrap() };
        let context = trace::TraceContext::parse(TRACEPARENT).map(|context| context.with_state("vendor=1"));
        let before = SystemTime::now() - Duration::from_secs(5);
        trace::scope(context, async { place.commit([Draft::new(&price, options)]).await }).await;
        place.settled(1).await;
        let (metadata, _) = told.0.lock().unwrap()[0].clone();
        assert_eq!(
            (metadata.event_id().as_str(), metadata.event_type(), metadata.version()),
            ("price-1", "price.set", 3)
        );
        assert_eq!((metadata.key(), metadata.occurred_at()), (Some("article-1"), Some(occurred_at)));
        let enqueued_at = metadata.enqueued_at().expect("the time of the enqueue");
        assert!(enqueued_at > before && enqueued_at < SystemTime::now() + Duration::from_secs(5), "{enqueued_at:?}");
        assert_eq!((metadata.correlation_id(), metadata.causation_id()), (Some("checkout-17"), Some("click-3")));
        let trace = metadata.trace().expect("a trace");
        assert_eq!((trace.trace_id(), trace.tracestate()), ("4bf92f3577b34da6a3ce929d0e0e4736", Some("vendor=1")));
        assert_eq!(metadata.headers(), &headers, "the caller's headers and nothing else");
        assert_eq!((metadata.consumer(), metadata.attempt(), metadata.redelivered()), ("matrix-tells", 1, false));
        runtime.shutdown().await;
    }

    /// C12, promise 1: what a handler returns or emits is written in its transaction, tells what it comes from, and goes on to its consumers.
    async fn events_of_a_handler_exist_only_with_its_transaction_and_go_on(place) {
        let runtime = place.start([S::handlers().forwards, S::handlers().receives]).await;
        for n in 1..=3 {
            let options = Enqueue::new().event_id(format!("cause-{n}")).correlation_id("checkout-17");
            place.commit([Draft::new(&OrderCreated::number(n), options)]).await;
        }
        place.becomes("cause-3", "Dead").await;
        idle(&runtime).await;
        let effects =
            place.texts("SELECT order_id FROM effects WHERE consumer = 'matrix-receives' ORDER BY order_id").await;
        let from = |what: &str, n: usize| format!("{what} order-00000{n} from cause-{n} in checkout-17");
        assert_eq!(effects, [from("emitted", 1), from("emitted", 2), from("returned", 1), from("returned", 2)]);
        assert_eq!(
            place.count("outbox_messages", "event_type = 'order.forwarded'").await,
            4,
            "runs that failed sent nothing"
        );
        runtime.shutdown().await;
    }

    /// By the database's clock. What is not due delays nothing else.
    async fn a_delayed_event_is_published_at_its_time_and_not_before(place) {
        let runtime = place.start([S::handlers().stock]).await;
        let delayed = |n: usize, options: Enqueue| Draft::new(&OrderCreated::number(n), options);
        let at = SystemTime::now() + Duration::from_secs(3);
        place
            .commit([
                delayed(1, Enqueue::new().at(at)),
                delayed(2, Enqueue::new().after(Duration::from_secs(3))),
                delayed(3, Enqueue::new().after(Duration::from_secs(86_400))),
                delayed(4, Enqueue::new().at(UNIX_EPOCH)),
                delayed(5, Enqueue::new()),
            ])
            .await;
        place.settled(4).await;
        assert!(SystemTime::now() >= at, "before its time");
        place.rows_become("outbox_messages", "status = 'Published'", 4).await;
        let early = "status = 'Published' AND published_at < next_attempt_at";
        assert_eq!(place.count("outbox_messages", early).await, 0);
        assert_eq!(place.count("outbox_messages", "status = 'Pending'").await, 1);
        runtime.shutdown().await;
    }

    /// Taken back in a transaction, from which moment no relay takes it; a rollback gives it back.
    async fn a_cancelled_event_is_never_published(place) {
        let id = |n: usize| EventId::parse(format!("order-{n}")).unwrap();
        let drafts = (1..=3).map(|n| {
            let options = Enqueue::new().event_id(format!("order-{n}")).after(Duration::from_millis(1_500));
            Draft::new(&OrderCreated::number(n), options)
        });
        place.commit(drafts).await;
        let runtime = place.start([S::handlers().stock]).await;
        let mut tx = place.begin().await;
        assert_eq!(outbox::cancel(&mut tx, &id(2)).await.unwrap(), Cancel::Cancelled);
        tx.rollback().await.unwrap();
        let mut tx = place.begin().await;
        assert_eq!(outbox::cancel(&mut tx, &id(1)).await.unwrap(), Cancel::Cancelled);
        // It is due in this transaction.
        tokio::time::sleep(Duration::from_secs(2)).await;
        tx.commit().await.unwrap();
        place.settled(2).await;
        idle(&runtime).await;
        assert_eq!(place.effects_of(1).await, 0);
        let mut tx = place.begin().await;
        let late = outbox::cancel(&mut tx, &id(3)).await.unwrap();
        assert!(matches!(late, Cancel::TooLate { status: EventStatus::Published, may_be_published: true, .. }), "{late:?}");
        tx.commit().await.unwrap();
        assert_eq!(place.count("outbox_messages", "true").await, 2);
        runtime.shutdown().await;
    }
}

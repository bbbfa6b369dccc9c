//! From the outbox to the queues: who gets an event, and what happens when nobody does.

use std::time::Duration;

use outbox::Role;

use super::place::{BrokerKind, idle};
use crate::producing::{Optional, Urgent};

matrix! {
    /// T1: every consumer that is bound gets the event, each once.
    async fn an_event_reaches_each_of_its_consumers_once(place) {
        let runtime = place.start([S::handlers().stock, S::handlers().mail, S::handlers().urgent]).await;
        place.enqueue(0, 50).await;
        for consumer in ["matrix-stock", "matrix-mail"] {
            place.rows_become("effects", &format!("consumer = '{consumer}'"), 50).await;
        }
        idle(&runtime).await;
        place.no_doubles().await;
        assert_eq!(place.count("effects", "1 = 1").await, 100, "and nobody else has it");
        runtime.shutdown().await;
    }

    /// R4, F37: nobody is bound yet: the event is held, tells why, and goes out when somebody is.
    async fn an_event_is_held_until_its_consumer_starts(place) {
        let relay = place.runtime([]).role(Role::Relay).start().await.unwrap();
        place.enqueue(0, 20).await;
        place.rows_become("outbox_messages", "status = 'Pending' AND attempt_count >= 1", 20).await;
        let errors = place.texts("SELECT DISTINCT last_error FROM outbox_messages").await;
        // Until the exchange is declared RabbitMQ says that there is none, and not which key it would not know.
        let early = |e: &str| place.broker() == BrokerKind::RabbitMq && e.contains("404");
        let told = |e: &String| e.contains("orders.events") && (e.contains("order.created") || early(e));
        assert!(!errors.is_empty() && errors.iter().all(told), "{errors:?}");
        let consumer = place.runtime([S::handlers().stock]).role(Role::Consume).start().await.unwrap();
        place.settled(20).await;
        place.rows_become("outbox_messages", "status = 'Published' AND last_error IS NULL", 20).await;
        consumer.shutdown().await;
        relay.shutdown().await;
    }

    /// R4: the opt-outs. `discard`: no subscriber is fine. `fail`: none is a failure when the budget is spent. `hold` never fails.
    async fn an_event_type_chooses_what_it_means_that_no_queue_wants_it(place) {
        place.commit([Optional { order_id: "a".into() }.draft(), Urgent { order_id: "b".into() }.draft()]).await;
        place.enqueue(0, 1).await;
        place.execute("UPDATE outbox_messages SET max_attempts = 1").await;
        let relay = place.runtime([]).role(Role::Relay).start().await.unwrap();
        place.rows_become("outbox_messages", "status = 'Published' AND event_type = 'order.optional'", 1).await;
        place
            .rows_become(
                "outbox_messages",
                "status = 'Failed' AND event_type = 'order.urgent' AND attempt_count = 1",
                1,
            )
            .await;
        place
            .rows_become(
                "outbox_messages",
                "status = 'Pending' AND event_type = 'order.created' AND attempt_count >= 1",
                1,
            )
            .await;
        let failed = place.texts("SELECT last_error FROM outbox_messages WHERE status = 'Failed'").await;
        assert!(failed[0].contains("order.urgent"), "{failed:?}");
        relay.shutdown().await;
    }

    /// R4: what was Failed stays as it is when a queue appears, until an operator says otherwise (docs/operations.md).
    async fn a_failed_event_is_kept_and_can_be_offered_again(place) {
        place.commit([Urgent { order_id: "b".into() }.draft()]).await;
        place.execute("UPDATE outbox_messages SET max_attempts = 1").await;
        let relay = place.runtime([]).role(Role::Relay).start().await.unwrap();
        place.rows_become("outbox_messages", "status = 'Failed'", 1).await;
        relay.shutdown().await;
        let runtime = place.start([S::handlers().urgent, S::handlers().stock]).await;
        // The order behind it shows that the relay works and passes it by.
        place.enqueue(0, 1).await;
        place.settled(1).await;
        assert_eq!(place.count("outbox_messages", "status = 'Failed'").await, 1);
        place.execute(&format!("UPDATE outbox_messages SET status = 'Pending', attempt_count = 0, next_attempt_at = {} WHERE status = 'Failed'", S::NOW)).await;
        place.settled(2).await;
        runtime.shutdown().await;
    }

    /// T1: two systems on one broker do not meet, whatever they have in common.
    async fn a_namespace_separates_two_systems_on_one_broker(place) {
        if !place.can() {
            // The broker is the database, and so is the outbox: a relay of another namespace takes the event and holds it.
            let consumer =
                place.runtime([S::handlers().stock]).namespace("one").role(Role::Consume).start().await.unwrap();
            let relay = place.runtime([]).namespace("two").role(Role::Relay).start().await.unwrap();
            place.enqueue(0, 1).await;
            place
                .rows_become(
                    "outbox_messages",
                    "status = 'Pending' AND attempt_count >= 1 AND last_error LIKE '%two.orders.events%'",
                    1,
                )
                .await;
            relay.shutdown().await;
            // Nothing is lost by that: the relay of the right namespace sends it.
            let relay = place.runtime([]).namespace("one").role(Role::Relay).start().await.unwrap();
            place.settled(1).await;
            relay.shutdown().await;
            consumer.shutdown().await;
            return;
        }
        // Same vhost, same exchanges, queues and consumers; each place has a namespace and a database of its own.
        let neighbour = place.neighbour().await;
        let (one, two) = (place.start([S::handlers().stock]).await, neighbour.start([S::handlers().stock]).await);
        place.enqueue(0, 30).await;
        neighbour.enqueue(100, 120).await;
        place.settled(30).await;
        neighbour.settled(20).await;
        tokio::join!(idle(&one), idle(&two));
        two.shutdown().await;
        place.enqueue(30, 40).await;
        place.settled(40).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        neighbour.settled(20).await;
        one.shutdown().await;
        neighbour.can();
        neighbour.end().await;
    }
}

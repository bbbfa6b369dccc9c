//! What the broker must hold, computed from events and consumers (T1). Pure data.

use std::collections::{BTreeMap, BTreeSet};

/// An argument of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Argument {
    Text(String),
    Number(i64),
}

/// What a queue is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueRole {
    /// A consumer's own queue.
    Work,
    /// What the broker gave up on; drained into `parked_messages` (C7).
    Dead,
    /// What not even the drain could take; nobody consumes it.
    Unreadable,
}

/// A durable queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) role: QueueRole,
    pub(crate) arguments: BTreeMap<&'static str, Argument>,
}

/// A binding of a queue to a topic exchange.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding {
    /// The exchange, with namespace.
    pub exchange: String,
    /// The queue, with namespace.
    pub queue: String,
    /// The binding key: an event's name, or a pattern.
    pub key: String,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Topology {
    /// Durable topic exchanges.
    pub(crate) exchanges: BTreeSet<String>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) bindings: BTreeSet<Binding>,
}

/// One consumer as the topology sees it.
#[derive(Debug, Clone)]
pub(crate) struct ConsumerQueue {
    /// Without namespace.
    pub(crate) queue: String,
    /// `(exchange, event name)` of each handler.
    pub(crate) events: Vec<(String, String)>,
}

/// How often the broker delivers a message without getting an ack before it gives up. Our own attempts are counted elsewhere; this one
/// counts lost connections and processes.
pub(crate) const DELIVERY_LIMIT: i64 = 20;

/// `x` and `orders` -> `x.orders`.
pub(crate) fn qualified(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}.{name}"))
}

/// The queue of messages that the broker gave up on.
pub(crate) fn dead_queue(queue: &str) -> String {
    format!("{queue}.dead")
}

/// The queue of messages that the drain could not take.
pub(crate) fn unreadable_queue(queue: &str) -> String {
    format!("{queue}.unreadable")
}

impl Topology {
    /// The topology of one runtime.
    pub(crate) fn new<'a>(
        namespace: Option<&str>,
        exchanges: impl IntoIterator<Item = &'a str>,
        consumers: &[ConsumerQueue],
    ) -> Self {
        let mut topology = Self {
            exchanges: exchanges.into_iter().map(|name| qualified(namespace, name)).collect(),
            ..Self::default()
        };
        for consumer in consumers {
            let queue = qualified(namespace, &consumer.queue);
            let chain = [
                (queue.clone(), QueueRole::Work, Some(dead_queue(&queue))),
                (dead_queue(&queue), QueueRole::Dead, Some(unreadable_queue(&queue))),
                (unreadable_queue(&queue), QueueRole::Unreadable, None),
            ];
            // A queue is declared after the one that it dead-letters to.
            for (name, role, dead_letters_to) in chain.into_iter().rev() {
                topology.queues.push(Queue { name, role, arguments: arguments(dead_letters_to) });
            }
            for (exchange, event) in &consumer.events {
                let exchange = qualified(namespace, exchange);
                topology.exchanges.insert(exchange.clone());
                topology.bindings.insert(Binding { exchange, queue: queue.clone(), key: event.clone() });
            }
        }
        topology
    }
}

/// Dead-lettering goes through the default exchange, which nobody can delete; at-least-once, so that a message leaves its queue only when
/// the other one has it.
fn arguments(dead_letters_to: Option<String>) -> BTreeMap<&'static str, Argument> {
    let mut arguments = BTreeMap::from([("x-queue-type", Argument::Text("quorum".to_owned()))]);
    if let Some(target) = dead_letters_to {
        arguments.insert("x-delivery-limit", Argument::Number(DELIVERY_LIMIT));
        arguments.insert("x-dead-letter-exchange", Argument::Text(String::new()));
        arguments.insert("x-dead-letter-routing-key", Argument::Text(target));
        arguments.insert("x-dead-letter-strategy", Argument::Text("at-least-once".to_owned()));
        arguments.insert("x-overflow", Argument::Text("reject-publish".to_owned()));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory() -> Topology {
        let consumers = [ConsumerQueue {
            queue: "inventory".to_owned(),
            events: vec![
                ("orders.events".to_owned(), "order.created".to_owned()),
                ("orders.events".to_owned(), "order.cancelled".to_owned()),
            ],
        }];
        Topology::new(Some("shop"), ["outbox.events"], &consumers)
    }

    #[test]
    fn a_consumer_has_one_queue_and_a_binding_for_each_event() {
        let topology = inventory();
        assert_eq!(topology.exchanges.iter().collect::<Vec<_>>(), ["shop.orders.events", "shop.outbox.events"]);
        let keys: Vec<&str> = topology.bindings.iter().map(|binding| binding.key.as_str()).collect();
        assert_eq!(keys, ["order.cancelled", "order.created"]);
        let names: Vec<&str> = topology.queues.iter().map(|queue| queue.name.as_str()).collect();
        assert_eq!(names, ["shop.inventory.unreadable", "shop.inventory.dead", "shop.inventory"]);
    }

    /// F31: a queue with a length limit drops confirmed messages; ours have none, and refuse rather than drop should a policy set one.
    #[test]
    fn queues_are_quorum_limited_in_deliveries_and_never_in_length() {
        for queue in inventory().queues {
            assert_eq!(queue.arguments["x-queue-type"], Argument::Text("quorum".to_owned()));
            assert!(!queue.arguments.contains_key("x-max-length"), "{queue:?}");
            assert!(!queue.arguments.contains_key("x-max-length-bytes"), "{queue:?}");
            assert!(!queue.arguments.contains_key("x-message-ttl"), "{queue:?}");
            if queue.role != QueueRole::Unreadable {
                assert_eq!(queue.arguments["x-delivery-limit"], Argument::Number(DELIVERY_LIMIT));
                assert_eq!(queue.arguments["x-overflow"], Argument::Text("reject-publish".to_owned()));
                assert_eq!(queue.arguments["x-dead-letter-strategy"], Argument::Text("at-least-once".to_owned()));
            }
        }
    }
}

//! What a person has to act on, told to the service as it happens.

mod call;
mod queue;

use std::fmt;

pub use self::call::AlertAnswer;
pub(crate) use self::call::AlertHook;
pub(crate) use self::queue::{Alerts, queue};

/// Something that a person has to act on. Given to the callback of [`RuntimeBuilder::on_alert`](crate::RuntimeBuilder::on_alert).
///
/// An alert is a convenience: it is not promised across a crash, and one that does not fit into the queue is dropped and counted. The metrics and
/// the tables are the truth. No alert has a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alert {
    /// An event's budget is spent: it is Failed and not published until a person acts.
    #[non_exhaustive]
    EventFailed {
        /// Its id.
        event_id: String,
        /// Its name.
        event_type: String,
        /// Where it should go, with the namespace.
        exchange: String,
        /// Under which routing key.
        routing_key: String,
        /// Attempts that were made.
        attempts: u32,
        /// Why the last one failed.
        error: String,
    },
    /// An event could not be published at its first attempt and is held; it is tried again by itself. Told once for each event, and again
    /// after an operator's `retry_now` or `replay`.
    #[non_exhaustive]
    EventHeld {
        /// Its id.
        event_id: String,
        /// Its name.
        event_type: String,
        /// Where it should go, with the namespace.
        exchange: String,
        /// Under which routing key.
        routing_key: String,
        /// Why.
        error: String,
    },
    /// A destination takes no event: a queue is full, gives no answer, or the broker's answer cannot be read. Its events wait and spend nothing. Told when it begins, by each relay.
    #[non_exhaustive]
    DestinationRefuses {
        /// The exchange, with the namespace.
        exchange: String,
        /// The routing key.
        routing_key: String,
        /// What the broker said, or that it said nothing.
        problem: String,
    },
    /// A message cannot be handled and waits in `parked_messages` until a person acts.
    #[non_exhaustive]
    MessageDead {
        /// The consumer.
        consumer: String,
        /// The event's id, if the message has one.
        event_id: Option<String>,
        /// Why it is Dead.
        reason: String,
        /// What went wrong.
        error: Option<String>,
    },
    /// Messages that could not even be parked wait in a queue that nobody consumes. Told when their number grows.
    #[non_exhaustive]
    Unreadable {
        /// The consumer.
        consumer: String,
        /// The queue they are in.
        queue: String,
        /// How many there are.
        messages: u32,
    },
    /// The broker has an exchange, a queue or a binding that does not fit, or lacks one. Told when it changes.
    #[non_exhaustive]
    BrokerEntity {
        /// Which one.
        entity: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        cure: String,
    },
    /// A background loop panicked or ended; it is started again. A bug: please report it.
    #[non_exhaustive]
    LoopRestarted {
        /// The loop.
        name: String,
        /// Why it ended.
        why: String,
    },
    /// The database cannot be worked with, and waiting does not help.
    #[non_exhaustive]
    DatabaseUnusable {
        /// What is wrong.
        problem: String,
        /// What to do.
        cure: String,
    },
}

impl Alert {
    /// A short name of its kind, for labels: `event_failed`, `event_held`, `message_dead`, ..
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::EventFailed { .. } => "event_failed",
            Self::EventHeld { .. } => "event_held",
            Self::DestinationRefuses { .. } => "destination_refuses",
            Self::MessageDead { .. } => "message_dead",
            Self::Unreadable { .. } => "unreadable",
            Self::BrokerEntity { .. } => "broker_entity",
            Self::LoopRestarted { .. } => "loop_restarted",
            Self::DatabaseUnusable { .. } => "database_unusable",
        }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EventFailed { event_id, event_type, exchange, attempts, error, .. } => {
                write!(
                    f,
                    "event {event_id} ({event_type}) is Failed after {attempts} attempts to publish it to {exchange}: {error}"
                )
            }
            Self::EventHeld { event_id, event_type, exchange, error, .. } => {
                write!(f, "event {event_id} ({event_type}) for {exchange} is held: {error}")
            }
            Self::DestinationRefuses { exchange, routing_key, problem } => {
                write!(f, "nothing is taken for exchange {exchange:?} and routing key {routing_key:?}: {problem}")
            }
            Self::MessageDead { consumer, event_id, reason, error } => {
                let (id, error) =
                    (event_id.as_deref().unwrap_or("without an id"), error.as_deref().unwrap_or("no error"));
                write!(f, "message {id} of consumer {consumer} is Dead: {reason}: {error}")
            }
            Self::Unreadable { consumer, queue, messages } => {
                write!(f, "{messages} messages of consumer {consumer} could not be parked and wait in {queue}")
            }
            Self::BrokerEntity { entity, problem, cure } => write!(f, "{entity}: {problem}; {cure}"),
            Self::LoopRestarted { name, why } => write!(f, "the loop {name} ended and is started again: {why}"),
            Self::DatabaseUnusable { problem, cure } => write!(f, "{problem}; {cure}"),
        }
    }
}

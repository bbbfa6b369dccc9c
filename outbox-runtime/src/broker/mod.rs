//! Brokers: RabbitMQ, or the database itself. What a broker must hold is pure data in `topology`.

#[cfg(all(feature = "rabbitmq", any(feature = "postgres", feature = "sqlite")))]
pub(crate) mod rabbitmq;
pub(crate) mod topic;
pub(crate) mod topology;

use std::fmt;

/// The broker that a runtime uses.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broker {
    /// RabbitMQ at this URL: `amqp://user:password@host:5672/vhost`, or `amqps://` with the feature `tls`.
    RabbitMq(String),
    /// The database itself: queues, bindings and messages are rows beside the outbox. See `queue_bindings` and `queue_messages`.
    Database,
}

impl Broker {
    /// The kind, as it is remembered in the database.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RabbitMq(_) => "rabbitmq",
            Self::Database => "database",
        }
    }
}

impl fmt::Debug for Broker {
    /// Without the URL: it has a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RabbitMq(_) => f.write_str("RabbitMq(..)"),
            Self::Database => f.write_str("Database"),
        }
    }
}

/// How a runtime treats exchanges, queues and bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Declare {
    /// Create what is missing; report what differs.
    #[default]
    On,
    /// Create nothing; report what is missing.
    Passive,
    /// Neither create nor look.
    Off,
}

/// A problem with one entity of the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityProblem {
    /// `queue "inventory"`.
    pub entity: String,
    /// What the broker said.
    pub problem: String,
    /// What to do.
    pub cure: String,
}

impl fmt::Display for EntityProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.entity, self.problem, self.cure)
    }
}

/// The way from the relay to the consumers.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[derive(Clone)]
pub(crate) enum Transport {
    /// Over a connection to RabbitMQ.
    #[cfg(feature = "rabbitmq")]
    RabbitMq(std::sync::Arc<rabbitmq::connection::Link>),
    /// Through rows of the database.
    Database,
}

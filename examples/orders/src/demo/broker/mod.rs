//! What is between the two services: RabbitMQ, or the database that they share.

mod queues;
mod rabbitmq;

pub(crate) use self::queues::Queues;
pub(crate) use self::rabbitmq::RabbitMq;

/// What the user can choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A RabbitMQ server; each service has a database of its own.
    RabbitMq,
    /// The database, one for both services.
    Database,
}

/// The broker of one run.
#[allow(clippy::large_enum_variant, reason = "there is one")]
pub(crate) enum Broker {
    RabbitMq(RabbitMq),
    Database(Queues),
}

impl Broker {
    /// What a service must be told to use it, beside its database.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::RabbitMq(server) => {
                vec![("AMQP_URL", server.url.clone()), ("OUTBOX_NAMESPACE", server.namespace.clone())]
            }
            Self::Database(_) => vec![("OUTBOX_BROKER", "database".to_owned())],
        }
    }

    /// Whether the inventory service takes messages from its queue.
    pub(crate) async fn inventory_consumes(&self) -> anyhow::Result<bool> {
        match self {
            Self::RabbitMq(server) => server.has_consumer("inventory").await,
            Self::Database(queues) => queues.inventory_consumes().await,
        }
    }

    /// The messages that the inventory service has taken and not finished; `None` where the broker does not tell.
    pub(crate) async fn inventory_claimed(&self) -> anyhow::Result<Option<i64>> {
        match self {
            Self::RabbitMq(_) => Ok(None),
            Self::Database(queues) => queues.inventory_claimed().await.map(Some),
        }
    }

    /// The messages in the consumers' queues. Where the broker does not count those that are with a consumer, they are not among them.
    pub(crate) async fn waiting(&self) -> anyhow::Result<i64> {
        match self {
            Self::RabbitMq(server) => Ok(server.waiting().await?.into()),
            Self::Database(queues) => queues.waiting().await,
        }
    }

    /// Removes what the services made there; the tables of the broker "database" go with the database.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        match self {
            Self::RabbitMq(server) => server.clear().await,
            Self::Database(_) => Ok(()),
        }
    }
}

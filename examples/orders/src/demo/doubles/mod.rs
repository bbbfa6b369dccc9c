//! Second copies: every tenth event comes twice. Half of them at once, while the first copy is still on its way, the others when all is quiet.

mod database;
mod rabbitmq;

use crate::broker::Broker;

/// Makes second copies from now on.
#[allow(clippy::large_enum_variant, reason = "there is one")]
pub(crate) enum Doubles {
    RabbitMq(rabbitmq::Doubles),
    Database(database::Doubles),
}

/// The copies for later.
pub(crate) struct Late {
    later: Later,
    /// How many copies were made at once.
    pub(crate) early: usize,
}

enum Later {
    RabbitMq(rabbitmq::Late),
    Database(database::Late),
}

impl Doubles {
    /// The services must have declared their exchanges and queues.
    pub(crate) async fn listen(broker: &Broker) -> anyhow::Result<Self> {
        Ok(match broker {
            Broker::RabbitMq(server) => Self::RabbitMq(rabbitmq::Doubles::listen(server).await?),
            Broker::Database(queues) => Self::Database(database::Doubles::new(queues)),
        })
    }

    /// Waits for the events of every tenth order and makes the early copies.
    pub(crate) async fn early(self, orders: usize) -> anyhow::Result<Late> {
        Ok(match self {
            Self::RabbitMq(doubles) => {
                let (early, late) = doubles.early(orders).await?;
                Late { later: Later::RabbitMq(late), early }
            }
            Self::Database(doubles) => {
                let (early, late) = doubles.early(orders).await?;
                Late { later: Later::Database(late), early }
            }
        })
    }
}

impl Late {
    /// Makes the late copies; how many there were.
    pub(crate) async fn publish(self) -> anyhow::Result<usize> {
        match self.later {
            Later::RabbitMq(late) => late.publish().await,
            Later::Database(late) => late.publish().await,
        }
    }
}

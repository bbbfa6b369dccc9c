//! The RabbitMQ server: readiness, queue lengths, and the removal of what the services declared.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use lapin::options::{ExchangeDeleteOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, Queue};

/// How long the server may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The queues of the two consumers.
const QUEUES: [&str; 2] = ["inventory", "orders"];
/// The exchanges of the two services, and the one that the library declares for events that name none.
const EXCHANGES: [&str; 3] = ["orders.events", "stock.events", "outbox.events"];

/// A server, and the namespace in it that is the demo's own.
pub(crate) struct RabbitMq {
    /// With its password: for the services, not for messages.
    pub(crate) url: String,
    pub(crate) namespace: String,
    connection: Connection,
}

impl RabbitMq {
    /// Connects to the one in `AMQP_URL`, else to the standard local port.
    pub(crate) async fn find(namespace: String) -> anyhow::Result<Self> {
        let url = match std::env::var("AMQP_URL") {
            Ok(url) if !url.is_empty() => url,
            _ => "amqp://guest:guest@127.0.0.1:5672/%2f".to_owned(),
        };
        match connect(&url).await {
            Ok(connection) => Ok(Self { url, namespace, connection }),
            Err(error) => bail!(
                "no RabbitMQ: {error}\n\
                 Start one: docker run -d -p 127.0.0.1:5672:5672 rabbitmq:4\n\
                 or set AMQP_URL=amqp://user:password@host:5672/%2f"
            ),
        }
    }

    /// The name of a queue or an exchange as the broker knows it.
    pub(crate) fn qualified(&self, name: &str) -> String {
        format!("{}.{name}", self.namespace)
    }

    /// A new channel.
    pub(crate) async fn channel(&self) -> anyhow::Result<Channel> {
        let channel = tokio::time::timeout(ANSWER, self.connection.create_channel()).await;
        channel.context("RabbitMQ does not answer")?.context("a channel")
    }

    /// Whether somebody consumes from the queue.
    pub(crate) async fn has_consumer(&self, queue: &str) -> anyhow::Result<bool> {
        Ok(self.look(queue).await?.is_some_and(|queue| queue.consumer_count() > 0))
    }

    /// The messages that wait in the consumers' queues. Those that are with a consumer are not among them.
    pub(crate) async fn waiting(&self) -> anyhow::Result<u32> {
        let mut waiting = 0;
        for name in QUEUES {
            let queue = self.look(name).await?.with_context(|| format!("the queue {name} is gone"))?;
            waiting += queue.message_count();
        }
        Ok(waiting)
    }

    /// A queue as it is; `None` when there is none. The broker closes the channel of a question about no queue, so each has its own.
    async fn look(&self, queue: &str) -> anyhow::Result<Option<Queue>> {
        let channel = self.channel().await?;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let look = channel.queue_declare(self.qualified(queue).into(), options, FieldTable::default());
        let Ok(queue) = tokio::time::timeout(ANSWER, look).await.context("RabbitMQ does not answer")? else {
            return Ok(None);
        };
        let _ = channel.close(200, "done".into()).await;
        Ok(Some(queue))
    }

    /// Deletes everything in the namespace, on a connection that nothing has happened to yet.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        let connection = connect(&self.url).await?;
        let channel = connection.create_channel().await?;
        for queue in QUEUES {
            // Deleting what is not there is not an error.
            for suffix in ["", ".dead", ".unreadable"] {
                let name = self.qualified(&format!("{queue}{suffix}"));
                channel.queue_delete(name.into(), QueueDeleteOptions::default()).await?;
            }
        }
        for exchange in EXCHANGES {
            channel.exchange_delete(self.qualified(exchange).into(), ExchangeDeleteOptions::default()).await?;
        }
        connection.close(200, "done".into()).await?;
        Ok(())
    }
}

async fn connect(url: &str) -> anyhow::Result<Connection> {
    // The parser's own message may quote the password.
    let mut uri: AMQPUri = url.parse().map_err(|_| anyhow!("AMQP_URL is not an AMQP URL"))?;
    uri.query.heartbeat.get_or_insert(10);
    let (host, port) = (uri.authority.host.clone(), uri.authority.port);
    let properties = ConnectionProperties::default().with_connection_name("orders-demo".into());
    let connection = tokio::time::timeout(ANSWER, Connection::connect_uri(uri, properties)).await;
    // Its message has its causes in it already.
    connection.map_err(|_| anyhow!("{host}:{port} does not answer"))?.map_err(|error| anyhow!("{host}:{port}: {error}"))
}

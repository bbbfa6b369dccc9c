//! The test's own connection to a broker: declares, publishes raw messages, looks into queues.
//!
//! Every operation has a channel of its own: one that the broker refuses closes only that.

use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};

/// A connection of the test's own.
#[derive(Debug)]
pub struct Wire {
    connection: Connection,
}

impl Wire {
    /// Connects; panics with the cure when there is no broker.
    pub async fn connect(url: &str) -> Self {
        Self::try_connect(url).await.unwrap_or_else(|e| {
            panic!("no RabbitMQ for the tests: {e}\nRun ./test, which starts one, or set OUTBOX_TEST_AMQP")
        })
    }

    /// Connects, or says why not.
    pub async fn try_connect(url: &str) -> Result<Self, lapin::Error> {
        let properties = ConnectionProperties::default().with_connection_name("outbox-it".into());
        Ok(Self { connection: Connection::connect(url, properties).await? })
    }

    /// The connection itself.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// A new channel.
    pub async fn channel(&self) -> Channel {
        self.connection.create_channel().await.expect("a channel")
    }

    /// Declares a durable quorum queue.
    pub async fn quorum_queue(&self, queue: &str) {
        self.queue_with(queue, table([("x-queue-type", text("quorum"))])).await;
    }

    /// Declares a durable queue with these arguments.
    pub async fn queue_with(&self, queue: &str, arguments: FieldTable) {
        let declared =
            self.channel().await.queue_declare(short(queue), QueueDeclareOptions::durable(), arguments).await;
        declared.unwrap_or_else(|e| panic!("queue {queue}: {e}"));
    }

    /// Declares a durable topic exchange.
    pub async fn topic_exchange(&self, exchange: &str) {
        let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let declare = self.channel().await;
        let declared =
            declare.exchange_declare(short(exchange), ExchangeKind::Topic, options, FieldTable::default()).await;
        declared.unwrap_or_else(|e| panic!("exchange {exchange}: {e}"));
    }

    /// Binds a queue.
    pub async fn bind(&self, queue: &str, exchange: &str, key: &str) {
        let (queue, exchange, key) = (short(queue), short(exchange), short(key));
        let options = QueueBindOptions::default();
        self.channel().await.queue_bind(queue, exchange, key, options, FieldTable::default()).await.expect("a binding");
    }

    /// Takes a binding away.
    pub async fn unbind(&self, queue: &str, exchange: &str, key: &str) {
        let (queue, exchange, key) = (short(queue), short(exchange), short(key));
        self.channel().await.queue_unbind(queue, exchange, key, FieldTable::default()).await.expect("no binding");
    }

    /// Publishes a raw message, mandatory and confirmed; true when it was routed.
    pub async fn publish(&self, exchange: &str, key: &str, properties: BasicProperties, body: &[u8]) -> bool {
        self.publish_all(exchange, key, [(properties, body.to_vec())]).await == 0
    }

    /// Publishes raw messages one after the other on one channel; returns how many came back as unroutable.
    pub async fn publish_all(
        &self,
        exchange: &str,
        key: &str,
        messages: impl IntoIterator<Item = (BasicProperties, Vec<u8>)>,
    ) -> usize {
        let channel = self.channel().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let mut returned = 0;
        for (properties, body) in messages {
            // A queue that was declared a moment ago may have no leader yet and nack: nobody has the message then.
            let mut tries = 0;
            loop {
                let published = channel.basic_publish(short(exchange), short(key), options, &body, properties.clone());
                // One in flight at a time, so the return belongs to this confirm.
                match published.await.unwrap().await.expect("a confirm") {
                    Confirmation::Ack(None) => break,
                    Confirmation::Ack(Some(_)) => {
                        returned += 1;
                        break;
                    }
                    Confirmation::Nack(_) if tries < 20 => {
                        tries += 1;
                        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                    }
                    other => panic!("the broker refused the message: {other:?}"),
                }
            }
        }
        returned
    }

    /// Takes the next message off a queue.
    pub async fn get(&self, queue: &str) -> Option<BasicGetMessage> {
        let channel = self.channel().await;
        let message =
            channel.basic_get(short(queue), BasicGetOptions::default()).await.expect("a queue to get from")?;
        message.delivery.ack(BasicAckOptions::default()).await.expect("the ack of a get");
        Some(message)
    }

    /// Takes every message off a queue.
    pub async fn drain(&self, queue: &str) -> Vec<BasicGetMessage> {
        let mut messages = Vec::new();
        while let Some(message) = self.get(queue).await {
            messages.push(message);
        }
        messages
    }

    /// The messages ready in a queue; `None` when there is no such queue.
    pub async fn ready(&self, queue: &str) -> Option<u32> {
        Some(self.passive(queue).await?.0)
    }

    /// The consumers of a queue; `None` when there is no such queue.
    pub async fn consumers(&self, queue: &str) -> Option<u32> {
        Some(self.passive(queue).await?.1)
    }

    async fn passive(&self, queue: &str) -> Option<(u32, u32)> {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let channel = self.connection.create_channel().await.ok()?;
        let queue = channel.queue_declare(short(queue), options, FieldTable::default()).await.ok()?;
        Some((queue.message_count(), queue.consumer_count()))
    }

    /// Whether an exchange exists.
    pub async fn has_exchange(&self, exchange: &str) -> bool {
        let options = ExchangeDeclareOptions { passive: true, ..Default::default() };
        let channel = self.channel().await;
        channel.exchange_declare(short(exchange), ExchangeKind::Topic, options, FieldTable::default()).await.is_ok()
    }

    /// Empties a queue.
    pub async fn purge(&self, queue: &str) -> u32 {
        self.channel().await.queue_purge(short(queue), QueuePurgeOptions::default()).await.expect("a queue to purge")
    }

    /// Deletes a queue with what is in it.
    pub async fn delete_queue(&self, queue: &str) -> u32 {
        self.channel().await.queue_delete(short(queue), QueueDeleteOptions::default()).await.expect("a queue to delete")
    }

    /// Deletes an exchange.
    pub async fn delete_exchange(&self, exchange: &str) {
        let channel = self.channel().await;
        channel
            .exchange_delete(short(exchange), ExchangeDeleteOptions::default())
            .await
            .expect("an exchange to delete");
    }

    /// The next message of a queue as an own consumer would hold it, unacked, with its channel.
    pub async fn hold(&self, queue: &str) -> Option<(Channel, BasicGetMessage)> {
        let channel = self.channel().await;
        let message =
            channel.basic_get(short(queue), BasicGetOptions::default()).await.expect("a queue to get from")?;
        Some((channel, message))
    }
}

/// A table of arguments or headers.
pub fn table<const N: usize>(entries: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in entries {
        table.insert(short(key), value);
    }
    table
}

/// A long string as a value of a table: the type that clients use for text.
pub fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn short(text: &str) -> ShortString {
    ShortString::try_new(text).expect("a short string")
}

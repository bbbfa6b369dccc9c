//! Publishes events a second time, as a broker does that lost an ack, or a relay that died before it wrote down a confirm.

use std::collections::HashSet;

use anyhow::{Context as _, bail, ensure};
use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Confirmation, Consumer};
use serde::Deserialize;

use crate::broker::RabbitMq;
use crate::post::order_id;

/// The demo's own queue beside the one of the inventory service: it gets a copy of every message, exactly as the relay published it.
pub(crate) struct Doubles {
    copies: Consumer,
    publisher: Channel,
}

/// Messages to be published again when everything is over.
pub(crate) struct Late {
    publisher: Channel,
    messages: Vec<Delivery>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    order_id: String,
}

impl Doubles {
    /// Listens from now on; the exchange must exist.
    pub(super) async fn listen(broker: &RabbitMq) -> anyhow::Result<Self> {
        let channel = broker.channel().await?;
        let options = QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
        let queue = channel.queue_declare("".into(), options, FieldTable::default()).await?.name().clone();
        let (exchange, key) = (broker.qualified("orders.events"), "order.created");
        let (bind, table) = (QueueBindOptions::default(), FieldTable::default());
        channel.queue_bind(queue.clone(), exchange.into(), key.into(), bind, table).await?;
        let consume = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let copies = channel.basic_consume(queue, "copies".into(), consume, FieldTable::default()).await?;
        let publisher = broker.channel().await?;
        publisher.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Self { copies, publisher })
    }

    /// How many were published again at once, and the others.
    pub(super) async fn early(mut self, orders: usize) -> anyhow::Result<(usize, Late)> {
        let mut wanted: HashSet<String> = (0..orders).step_by(10).map(order_id).collect();
        let (mut early, mut late) = (0, Late { publisher: self.publisher, messages: Vec::new() });
        while !wanted.is_empty() {
            let message = self.copies.next().await.context("the demo lost its connection to RabbitMQ")??;
            let body: Body = serde_json::from_slice(&message.data).context("an event that is not an order")?;
            // The second copy comes back to this queue, too; and a killed relay's events may come twice by themselves.
            if !wanted.remove(&body.order_id) {
                continue;
            }
            if wanted.len().is_multiple_of(2) {
                again(&late.publisher, &message).await?;
                early += 1;
            } else {
                late.messages.push(message);
            }
        }
        Ok((early, late))
    }
}

impl Late {
    pub(super) async fn publish(self) -> anyhow::Result<usize> {
        for message in &self.messages {
            again(&self.publisher, message).await?;
        }
        Ok(self.messages.len())
    }
}

/// The very same message: exchange, routing key, id, headers and body.
async fn again(channel: &Channel, message: &Delivery) -> anyhow::Result<()> {
    ensure!(message.properties.message_id().is_some(), "an event without message_id");
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let (exchange, key) = (message.exchange.clone(), message.routing_key.clone());
    let confirm = channel.basic_publish(exchange, key, options, &message.data, message.properties.clone()).await?;
    // One at a time, so a returned message would be this one.
    match confirm.await? {
        Confirmation::Ack(None) => Ok(()),
        other => bail!("a second copy was not accepted: {other:?}"),
    }
}

//! One subscription: a channel with a prefetch, a stream of deliveries, and the ack that may come too late.

use std::time::Duration;

use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};

use super::connection::Link;
use super::message::incoming;
use super::{ANSWER, RabbitError, answered};
use crate::raw::RawMessage;

/// A subscription. The channel lives as long as acks are outstanding.
pub(crate) struct Subscription {
    pub(crate) channel: Channel,
    pub(crate) stream: Consumer,
}

/// Subscribes on a new channel.
pub(crate) async fn subscribe(link: &Link, queue: &str, tag: &str, prefetch: u16) -> Result<Subscription, RabbitError> {
    let (_, channel) = link.channel().await?;
    // Before consuming: lapin's own buffer has no bound.
    answered("setting the prefetch", channel.basic_qos(prefetch, BasicQosOptions { global: false })).await?;
    let stream = channel.basic_consume(
        ShortString::try_new(queue).unwrap_or_default(),
        ShortString::try_new(tag).unwrap_or_default(),
        BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    let stream = answered("subscribing", stream).await?;
    Ok(Subscription { channel, stream })
}

impl Subscription {
    /// Asks the broker to send no more.
    pub(crate) async fn cancel(&self) {
        let cancelled = self.channel.basic_cancel(self.stream.tag(), BasicCancelOptions::default());
        let _ = tokio::time::timeout(Duration::from_secs(2), cancelled).await;
    }

    /// Closes the channel: the broker delivers again what was not acked.
    pub(crate) async fn close(&self) {
        let closed = self.channel.close(200, ShortString::from("done"));
        let _ = tokio::time::timeout(Duration::from_secs(2), closed).await;
    }
}

/// The right to ack one delivery, once.
pub(crate) struct AckHandle(lapin::Acker);

impl AckHandle {
    /// Acks; `false` means that the broker will deliver it again.
    pub(crate) async fn ack(self) -> bool {
        matches!(tokio::time::timeout(ANSWER, self.0.ack(BasicAckOptions::default())).await, Ok(Ok(true)))
    }
}

/// A delivery taken apart.
pub(crate) fn take(delivery: lapin::message::Delivery) -> (RawMessage, AckHandle) {
    let lapin::message::Delivery { exchange, routing_key, redelivered, properties, data, acker, .. } = delivery;
    (incoming(&exchange, &routing_key, redelivered, &properties, data), AckHandle(acker))
}

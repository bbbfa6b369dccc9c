//! Publishing one batch on one channel, and the verdict on each of its events (R3).
//!
//! lapin hands a returned message to whichever confirm completes next, not to its own. So the batch owns its channel, every publish carries
//! its event id as `message_id`, *all* confirms are awaited, the ids of *all* returned messages are collected, and only then is anything
//! decided. If one confirm is missing, no other one proves anything: the return may sit in the future that was dropped.

use std::collections::HashMap;
use std::time::Duration;

use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation, PublisherConfirm};
use tokio::time::Instant;

use super::message::Outgoing;
use super::reply;

/// One event to publish.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) event_id: &'a str,
    pub(crate) outgoing: Outgoing,
    pub(crate) body: &'a [u8],
}

/// What is known of one event after its batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Confirmed and not returned.
    Published,
    /// No queue wanted it.
    Returned { code: u16, text: String },
    /// The broker could not take it.
    Nacked,
    /// The broker may or may not have it.
    Unknown,
}

/// How a batch ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BatchEnd {
    /// Every confirm came; a verdict for each event, in order.
    Decided(Vec<Verdict>),
    /// The broker closed the channel: nothing is known of any event.
    ChannelClosed { code: u16, text: String },
    /// The broker closed the whole connection over what it was sent: nothing is known of any event.
    ConnectionClosed { code: u16, text: String },
    /// The broker closed something, and the client cannot read why; the connection is gone with it. RabbitMQ cuts its texts after 252 bytes, also
    /// within a character, and a text has the names of the exchange, the vhost and the user.
    Unreadable,
    /// The connection was lost: nothing is known of any event.
    Lost(String),
    /// The deadline passed. Nothing is known of any event; whether each one's own confirm came tells who keeps silent.
    Silent {
        /// In the order of the events.
        confirmed: Vec<bool>,
    },
}

/// What one confirm said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Confirm {
    Ack,
    Nack,
    Missing,
}

/// A returned message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Return {
    pub(crate) code: u16,
    pub(crate) text: String,
}

/// The verdicts of a batch. `confirms[i]` belongs to `ids[i]`; returns are by event id, whichever confirm carried them.
pub(crate) fn decide(ids: &[&str], confirms: &[Confirm], returns: &HashMap<String, Return>) -> Vec<Verdict> {
    if confirms.len() != ids.len() || confirms.contains(&Confirm::Missing) {
        return vec![Verdict::Unknown; ids.len()];
    }
    ids.iter()
        .zip(confirms)
        .map(|(id, confirm)| match (returns.get(*id), confirm) {
            (Some(returned), _) => Verdict::Returned { code: returned.code, text: returned.text.clone() },
            (None, Confirm::Ack) => Verdict::Published,
            (None, _) => Verdict::Nacked,
        })
        .collect()
}

/// Publishes a batch on a channel in confirm mode that nobody else uses. After any end but [`BatchEnd::Decided`] the channel must be dropped.
pub(crate) async fn publish_batch(channel: &Channel, items: &[Item<'_>], deadline: Duration) -> BatchEnd {
    let deadline = Instant::now() + deadline;
    match tokio::time::timeout_at(deadline + COLLECTING, publish_and_collect(channel, items, deadline)).await {
        Ok(end) => end,
        Err(_) => BatchEnd::Lost("the connection took nothing until the deadline for confirms".to_owned()),
    }
}

/// How long it may take to look which confirms have come when their deadline has passed.
const COLLECTING: Duration = Duration::from_millis(500);

async fn publish_and_collect(channel: &Channel, items: &[Item<'_>], deadline: Instant) -> BatchEnd {
    let mut pending: Vec<PublisherConfirm> = Vec::with_capacity(items.len());
    for item in items {
        let sent = channel
            .basic_publish(
                item.outgoing.exchange.clone(),
                item.outgoing.routing_key.clone(),
                BasicPublishOptions { mandatory: true, immediate: false },
                item.body,
                item.outgoing.properties.clone(),
            )
            .await;
        match sent {
            Ok(confirm) => pending.push(confirm),
            // What was sent before is awaited all the same: the broker's reason for closing comes with it.
            Err(error) => {
                let mut end = ended(&error);
                for confirm in pending {
                    if let Err(error) = confirm.await {
                        end = better(end, ended(&error));
                    }
                }
                return end;
            }
        }
    }
    let mut confirms = Vec::with_capacity(items.len());
    let mut returns = HashMap::new();
    let mut failure: Option<BatchEnd> = None;
    let mut late = false;
    for confirm in pending {
        let Ok(confirm) = tokio::time::timeout_at(deadline, confirm).await else {
            late = true;
            confirms.push(Confirm::Missing);
            continue;
        };
        let (confirm, returned) = match confirm {
            Ok(Confirmation::Ack(returned)) => (Confirm::Ack, returned),
            Ok(Confirmation::Nack(returned)) => (Confirm::Nack, returned),
            Ok(Confirmation::NotRequested) => (Confirm::Missing, None),
            Err(error) => {
                failure = Some(match failure {
                    Some(known) => better(known, ended(&error)),
                    None => ended(&error),
                });
                (Confirm::Missing, None)
            }
        };
        confirms.push(confirm);
        if let Some(message) = returned {
            match message.delivery.properties.message_id() {
                Some(id) => {
                    let text = message.reply_text.to_string();
                    returns.insert(id.to_string(), Return { code: message.reply_code, text });
                }
                // Every publish of ours has an id: this one proves that the batch cannot be told apart.
                None => failure = Some(BatchEnd::Lost("a returned message without an id".to_owned())),
            }
        }
    }
    if let Some(end) = failure {
        return end;
    }
    if late {
        return BatchEnd::Silent { confirmed: confirms.iter().map(|confirm| *confirm != Confirm::Missing).collect() };
    }
    let ids: Vec<&str> = items.iter().map(|item| item.event_id).collect();
    BatchEnd::Decided(decide(&ids, &confirms, &returns))
}

fn ended(error: &lapin::Error) -> BatchEnd {
    if matches!(error.kind(), lapin::ErrorKind::ParsingError(_)) {
        return BatchEnd::Unreadable;
    }
    match reply(error) {
        Some((code, text)) if error.is_amqp_soft_error() => BatchEnd::ChannelClosed { code, text },
        Some((code, text)) if is_our_fault(code) => BatchEnd::ConnectionClosed { code, text },
        Some((code, text)) => BatchEnd::Lost(format!("{code} {text}")),
        None => BatchEnd::Lost(error.to_string()),
    }
}

/// Hard errors over the content of a frame, not over the state of the broker.
fn is_our_fault(code: u16) -> bool {
    matches!(code, 501..=506 | 530 | 540)
}

/// The end that says more.
fn better(one: BatchEnd, other: BatchEnd) -> BatchEnd {
    if matches!(one, BatchEnd::Lost(_)) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returns(ids: &[&str]) -> HashMap<String, Return> {
        ids.iter().map(|id| ((*id).to_owned(), Return { code: 312, text: "NO_ROUTE".to_owned() })).collect()
    }

    /// R3: the table of verdicts.
    #[test]
    fn a_verdict_needs_every_confirm_and_looks_at_every_return() {
        let returned = Verdict::Returned { code: 312, text: "NO_ROUTE".to_owned() };
        let confirms = |text: &str| {
            let one = |c| match c {
                'a' => Confirm::Ack,
                'n' => Confirm::Nack,
                _ => Confirm::Missing,
            };
            text.chars().map(one).collect::<Vec<_>>()
        };
        let table: [(&str, &[&str], [Verdict; 2]); 7] = [
            ("aa", &[], [Verdict::Published, Verdict::Published]),
            ("aa", &["b"], [Verdict::Published, returned.clone()]),
            ("an", &[], [Verdict::Published, Verdict::Nacked]),
            ("an", &["b"], [Verdict::Published, returned]),
            // One missing confirm: the return of `a` may be lost with it, so the ack of `a` proves nothing.
            ("a?", &[], [Verdict::Unknown, Verdict::Unknown]),
            ("?a", &["b"], [Verdict::Unknown, Verdict::Unknown]),
            ("a", &[], [Verdict::Unknown, Verdict::Unknown]),
        ];
        for (said, returned_ids, want) in table {
            let verdicts = decide(&["a", "b"], &confirms(said), &returns(returned_ids));
            assert_eq!(verdicts, want, "{said} {returned_ids:?}");
        }
    }
}

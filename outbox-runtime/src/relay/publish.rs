//! Stage two: one batch at a time on one channel; a batch that closes it is offered again in halves, down to single rows (R3).

use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::broker::Declare;
use crate::broker::rabbitmq::connection::{Link, LinkState};
use crate::broker::rabbitmq::message::outgoing;
use crate::broker::rabbitmq::publish::{BatchEnd, Item, Verdict, publish_batch};
use crate::broker::rabbitmq::{RabbitError, answered, declare};
use crate::broker::topology::qualified;
use crate::outbox::{ClaimedRow, Fate, Settlement};
use crate::relay::fate::{Budget, Word, fate};
use crate::relay::record::{Told, record};
use crate::relay::{Batch, Relay, Settled};
use crate::store::Store;
use crate::telemetry::names;

pub(super) async fn run<DB: Store>(
    relay: Arc<Relay<DB>>,
    link: Arc<Link>,
    batches: Arc<Mutex<mpsc::Receiver<Batch>>>,
    to_settle: mpsc::Sender<Settled>,
) {
    let mut publisher = Publisher { relay: &relay, link: &link, channel: None };
    loop {
        // Held only while waiting: whoever is free takes the next batch.
        let batch = batches.lock().await.recv().await;
        let Some(batch) = batch else { return };
        let settlements = if relay.stop.is_cancelled() {
            metrics::counter!(names::PUT_BACK).increment(batch.rows.len() as u64);
            batch.rows.iter().map(|row| settlement(row, &batch.claim, Fate::PutBack)).collect()
        } else {
            let exchange = batch.rows.first().map_or("", |row| row.exchange.as_str());
            let span =
                tracing::debug_span!("outbox.publish", exchange, events = batch.rows.len(), claim = %batch.claim);
            publisher.publish(&batch).instrument(span).await
        };
        if to_settle.send(Settled { settlements, permit: batch.permit }).await.is_err() {
            return;
        }
    }
}

fn settlement(row: &ClaimedRow, claim: &str, fate: Fate) -> Settlement {
    Settlement { event_id: row.event_id.clone(), claim_id: claim.to_owned(), fate }
}

struct Publisher<'r, DB: Store> {
    relay: &'r Relay<DB>,
    link: &'r Link,
    channel: Option<(u64, Channel)>,
}

impl<DB: Store> Publisher<'_, DB> {
    async fn publish(&mut self, batch: &Batch) -> Vec<Settlement> {
        let exchange = batch.rows.first().map_or("", |row| row.exchange.as_str());
        let exchange = qualified(self.relay.config.namespace.as_deref(), exchange);
        let words = match self.relay.destinations.backing_off(&exchange) {
            Some(rest) => vec![Word::Nacked(rest); batch.rows.len()],
            None => self.words(batch, &exchange).await,
        };
        let since_claim = batch.claimed_at.elapsed();
        batch
            .rows
            .iter()
            .zip(words)
            .map(|(row, word)| {
                let budget = Budget {
                    unroutable: row.unroutable,
                    attempt_count: row.attempt_count,
                    max_attempts: row.max_attempts,
                };
                let fate = fate(&word, budget);
                record(Told::from(row), &word, &fate, &exchange, row.age + since_claim, &self.relay.held);
                settlement(row, &batch.claim, fate)
            })
            .collect()
    }

    /// What is known of each row after all its tries in this batch.
    async fn words(&mut self, batch: &Batch, exchange: &str) -> Vec<Word> {
        let mut words: Vec<Option<Word>> = vec![None; batch.rows.len()];
        let mut ready = Vec::with_capacity(batch.rows.len());
        for (index, row) in batch.rows.iter().enumerate() {
            match outgoing(row, exchange) {
                Ok(outgoing) => ready.push((index, outgoing)),
                Err(unsendable) => words[index] = Some(Word::Refused(unsendable.0)),
            }
        }
        let mut parts = vec![ready];
        let mut declared = false;
        // The connection was closed under this batch: by one of its rows, or by what another channel sent at the same time.
        let mut suspect = false;
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let mut say = |part: &[(usize, _)], word: Word| {
                for (index, _) in part {
                    words[*index] = Some(word.clone());
                }
            };
            let (_shared, _alone) = if suspect {
                (None, Some(self.relay.alone.write().await))
            } else {
                (Some(self.relay.alone.read().await), None)
            };
            let channel = match self.channel().await {
                Ok(channel) => channel,
                Err(error) => {
                    let word = Word::Unknown(error.to_string());
                    say(&part, word.clone());
                    parts.drain(..).for_each(|rest| say(&rest, word.clone()));
                    break;
                }
            };
            let items: Vec<Item<'_>> = part
                .iter()
                .map(|(index, outgoing)| Item {
                    event_id: &batch.rows[*index].event_id,
                    outgoing: outgoing.clone(),
                    body: batch.rows[*index].payload.as_bytes(),
                })
                .collect();
            let started = Instant::now();
            let end = publish_batch(&channel, &items, self.relay.config.confirm).await;
            if !matches!(end, BatchEnd::Decided(_)) {
                self.channel = None;
            }
            match end {
                BatchEnd::Decided(verdicts) => {
                    metrics::histogram!(names::CONFIRM_SECONDS).record(started.elapsed());
                    let nacked = verdicts.contains(&Verdict::Nacked);
                    let rest = if nacked { self.relay.destinations.refused(exchange) } else { Duration::ZERO };
                    if nacked {
                        // The broker keeps a full queue's state with the channel, and may not say when the queue takes messages again.
                        self.channel = None;
                    } else {
                        self.relay.destinations.accepted(exchange);
                    }
                    for ((index, outgoing), verdict) in part.iter().zip(verdicts) {
                        words[*index] = Some(match verdict {
                            Verdict::Published => Word::Published,
                            Verdict::Nacked => Word::Nacked(rest),
                            Verdict::Unknown => Word::Unknown("a confirm of the batch is missing".to_owned()),
                            Verdict::Returned { code, text } => Word::Unroutable(format!(
                                "{code} {text}: no queue is bound to exchange {exchange:?} for routing key {:?}",
                                outgoing.routing_key.as_str()
                            )),
                        });
                    }
                }
                // The exchange is missing, or may not be written to: the same for every event of the batch.
                BatchEnd::ChannelClosed { code: 404, .. } if !declared && self.declares() => {
                    declared = true;
                    self.declare(exchange).await;
                    parts.push(part);
                }
                BatchEnd::ChannelClosed { code: code @ (403 | 404), text } => {
                    say(&part, Word::NoExchange(format!("{code} {text}: exchange {exchange:?}")));
                }
                BatchEnd::ConnectionClosed { .. } if !suspect => {
                    suspect = true;
                    parts.push(part);
                }
                BatchEnd::ChannelClosed { code, text } | BatchEnd::ConnectionClosed { code, text } => {
                    if part.len() == 1 {
                        say(&part, Word::Refused(format!("{code} {text}: exchange {exchange:?}")));
                    } else {
                        let mut first = part;
                        let second = first.split_off(first.len() / 2);
                        parts.push(second);
                        parts.push(first);
                    }
                }
                BatchEnd::Lost(reason) => {
                    let word = Word::Unknown(reason);
                    say(&part, word.clone());
                    parts.drain(..).for_each(|rest| say(&rest, word.clone()));
                }
            }
        }
        words.into_iter().map(|word| word.unwrap_or_else(|| Word::Unknown("not published".to_owned()))).collect()
    }

    /// The channel of this publisher, on the current connection; waits a little for one that is being made.
    async fn channel(&mut self) -> Result<Channel, RabbitError> {
        let up = async {
            let mut state = self.link.state();
            loop {
                state.wait_for(|state| matches!(state, LinkState::Up(_))).await.ok()?;
                match self.link.connection() {
                    Ok((generation, connection)) if connection.status().connected() => return Some(generation),
                    // It was just closed, and its supervisor does not know yet.
                    _ => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let generation = match tokio::time::timeout(Duration::from_secs(5), up).await {
            Ok(Some(generation)) => generation,
            _ => return Err(RabbitError::NotConnected),
        };
        if let Some((made_on, channel)) = &self.channel
            && *made_on == generation
            && channel.status().connected()
        {
            return Ok(channel.clone());
        }
        let (generation, channel) = self.link.channel().await?;
        answered("asking for confirms", channel.confirm_select(ConfirmSelectOptions::default())).await?;
        self.channel = Some((generation, channel.clone()));
        Ok(channel)
    }

    fn declares(&self) -> bool {
        self.relay.config.declare == Declare::On
    }

    /// An exchange that vanished, or of an event type that this build does not know: declared when it is first missed. With one of ours
    /// everything is declared again, since its bindings went with it.
    async fn declare(&self, exchange: &str) {
        let declared = async {
            let (_, connection) = self.link.connection()?;
            declare::exchange(&connection, exchange, false).await?;
            if self.link.has_exchange(exchange) { self.link.declare_again().await } else { Ok(()) }
        };
        if let Err(error) = declared.await {
            tracing::warn!(exchange, %error, "a missing exchange could not be declared");
        }
    }
}

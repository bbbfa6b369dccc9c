//! Stage two: one batch at a time on one channel; a batch that closes it is offered again in halves, down to single rows (R3). Of each key one
//! event at a time (R6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::broker::Declare;
use crate::broker::rabbitmq::connection::{Link, LinkState};
use crate::broker::rabbitmq::message::{Outgoing, outgoing};
use crate::broker::rabbitmq::publish::{BatchEnd, Item, Verdict, publish_batch};
use crate::broker::rabbitmq::{RabbitError, answered, declare};
use crate::broker::topology::qualified;
use crate::outbox::{ClaimedRow, Fate, Settlement};
use crate::relay::destination::{ASKING, SILENT, UNREADABLE};
use crate::relay::fate::{Word, fate};
use crate::relay::line::Lines;
use crate::relay::record::{Told, record};
use crate::relay::{Batch, Outcomes, Relay};
use crate::store::Store;
use crate::telemetry::names;

pub(super) async fn run<DB: Store>(
    relay: Arc<Relay<DB>>,
    link: Arc<Link>,
    batches: Arc<Mutex<mpsc::Receiver<Batch>>>,
    to_settle: mpsc::Sender<Outcomes>,
) {
    let mut publisher = Publisher { relay: &relay, link: &link, channel: None };
    loop {
        // Held only while waiting: whoever is free takes the next batch.
        let batch = batches.lock().await.recv().await;
        let Some(batch) = batch else { return };
        let rows = &batch.part.rows;
        let fates = if relay.stop.is_cancelled() {
            vec![Fate::PutBack; rows.len()]
        } else {
            let exchange = rows.first().map_or("", |row| row.exchange.as_str());
            let span = tracing::debug_span!("outbox.publish", exchange, events = rows.len(), claim = %batch.claim);
            publisher.publish(&batch).instrument(span).await
        };
        let put_back = fates.iter().filter(|fate| matches!(fate, Fate::PutBack)).count();
        metrics::counter!(names::PUT_BACK).increment(put_back as u64);
        let settlements = rows.iter().zip(fates).map(|(row, fate)| settlement(row, &batch.claim, fate)).collect();
        if to_settle.send(Outcomes { settlements, permit: batch.permit }).await.is_err() {
            return;
        }
    }
}

/// Why a destination takes nothing, in the broker's own word.
const NACKED: &str = "the broker could not take it (basic.nack)";

/// Neither this event nor the next one is to blame: the destination took nothing.
fn not_taken(after: Duration, why: &str, exchange: &str, routing_key: &str) -> Word {
    Word::Nacked { after, error: format!("{why}: exchange {exchange:?}, routing key {routing_key:?}") }
}

fn settlement(row: &ClaimedRow, claim: &str, fate: Fate) -> Settlement {
    Settlement { event_id: row.event_id.clone(), claim_id: claim.to_owned(), fate }
}

/// A row, by its place among those that are offered together, and what is sent of it.
type Ready = (usize, Outgoing);

struct Publisher<'r, DB: Store> {
    relay: &'r Relay<DB>,
    link: &'r Link,
    channel: Option<(u64, Channel)>,
}

impl<DB: Store> Publisher<'_, DB> {
    /// Publishes the first event of each line, then the next of those that may go on, and so on. Rows without order are lines of one.
    async fn publish(&mut self, batch: &Batch) -> Vec<Fate> {
        let started = Instant::now();
        let mut lines = Lines::new(&batch.part.rows, batch.part.ordered);
        while let Some(round) = lines.next_round() {
            // The rest of a long line goes back, so that its neighbours need not wait for it; it is claimed again at once.
            let long = !lines.is_fresh() && started.elapsed() > self.relay.config.confirm / 4;
            if long || (!lines.is_fresh() && self.relay.stop.is_cancelled()) {
                break;
            }
            let mut by_exchange: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
            for index in round {
                by_exchange.entry(batch.part.rows[index].exchange.as_str()).or_default().push(index);
            }
            for (exchange, indices) in by_exchange {
                let exchange = qualified(self.relay.config.namespace.as_deref(), exchange);
                let rows: Vec<&ClaimedRow> = indices.iter().map(|index| &batch.part.rows[*index]).collect();
                let words = self.words(&rows, &exchange, batch.part.suspect).await;
                let since_claim = batch.claimed_at.elapsed();
                for ((index, row), word) in indices.into_iter().zip(rows).zip(words) {
                    let age = row.age + since_claim;
                    let fate = fate(&word, &row.budget, age);
                    record(Told::from(row), &word, &fate, &exchange, age, &self.relay.held);
                    lines.decide(index, fate);
                }
            }
        }
        lines.fates()
    }

    /// What is known of each row after all its tries in this batch.
    async fn words(&mut self, rows: &[&ClaimedRow], exchange: &str, suspect: bool) -> Vec<Word> {
        let relay = self.relay;
        let mut words: Vec<Option<Word>> = vec![None; rows.len()];
        let mut ready = Vec::with_capacity(rows.len());
        let mut doubted: BTreeMap<&str, Vec<Ready>> = BTreeMap::new();
        for (index, row) in rows.iter().enumerate() {
            if let Some((rest, why)) = self.relay.destinations.backing_off(exchange, &row.routing_key) {
                words[index] = Some(not_taken(rest, why, exchange, &row.routing_key));
                continue;
            }
            match outgoing(row, exchange) {
                Ok(outgoing) if relay.destinations.doubt(exchange, &row.routing_key).is_some() => {
                    doubted.entry(&row.routing_key).or_default().push((index, outgoing));
                }
                Ok(outgoing) => ready.push((index, outgoing)),
                Err(unsendable) => words[index] = Some(Word::Refused(unsendable.0)),
            }
        }
        self.offer(vec![ready], rows, exchange, suspect, &mut words).await;
        // One event for each destination that gave no answer of use, and the others only when it gives one.
        for (key, mut asked) in doubted {
            let mut others = asked.split_off(1);
            match relay.asking.try_lock() {
                Ok(_alone) => {
                    relay.destinations.ask(exchange, key);
                    // Whoever is on the connection loses it with an answer that cannot be read.
                    let breaks = relay.destinations.doubt(exchange, key) == Some(UNREADABLE);
                    self.offer(vec![asked], rows, exchange, breaks, &mut words).await;
                }
                Err(_) => others.append(&mut asked),
            }
            if let Some(why) = relay.destinations.doubt(exchange, key) {
                let rest = relay.destinations.backing_off(exchange, key).map_or(ASKING, |(rest, _)| rest);
                for (index, _) in others {
                    words[index] = Some(not_taken(rest, why, exchange, key));
                }
            } else {
                self.offer(vec![others], rows, exchange, false, &mut words).await;
            }
        }
        words.into_iter().map(|word| word.unwrap_or_else(|| Word::Unknown("not published".to_owned()))).collect()
    }

    /// Publishes these parts, one after the other, and notes what is known of each row.
    async fn offer(
        &mut self,
        mut parts: Vec<Vec<Ready>>,
        rows: &[&ClaimedRow],
        exchange: &str,
        suspect: bool,
        words: &mut [Option<Word>],
    ) {
        let mut declared = false;
        // The connection was closed under these rows: by one of them, or by what another channel sent at the same time.
        let mut suspect = suspect;
        while let Some(mut part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            if part.len() > 1 && !self.relay.proven.has(exchange) {
                parts.push(part.split_off(1));
            }
            let mut say = |part: &[Ready], word: &dyn Fn(&str) -> Word| {
                for (index, outgoing) in part {
                    words[*index] = Some(word(outgoing.routing_key.as_str()));
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
                    let word = |_: &str| Word::Unknown(error.to_string());
                    say(&part, &word);
                    parts.drain(..).for_each(|rest| say(&rest, &word));
                    break;
                }
            };
            let items: Vec<Item<'_>> = part
                .iter()
                .map(|(index, outgoing)| Item {
                    event_id: &rows[*index].event_id,
                    outgoing: outgoing.clone(),
                    body: rows[*index].payload.as_bytes(),
                })
                .collect();
            let started = Instant::now();
            let end = publish_batch(&channel, &items, self.relay.config.confirm).await;
            match end {
                BatchEnd::Decided(_) => self.relay.proven.answers(exchange),
                // Who keeps silent is a queue, not the exchange.
                BatchEnd::Silent { .. } => self.channel = None,
                _ => {
                    self.channel = None;
                    self.relay.proven.doubt(exchange);
                }
            }
            match end {
                BatchEnd::Decided(verdicts) => {
                    metrics::histogram!(names::CONFIRM_SECONDS).record(started.elapsed());
                    if verdicts.contains(&Verdict::Nacked) {
                        // The broker keeps a full queue's state with the channel, and may not say when the queue takes messages again.
                        self.channel = None;
                    }
                    let keys = part.iter().map(|(index, _)| rows[*index].routing_key.as_str());
                    let answers = keys.zip(verdicts.iter().map(|verdict| *verdict != Verdict::Nacked));
                    let waits = self.relay.destinations.answered(exchange, answers, NACKED);
                    for ((index, outgoing), verdict) in part.iter().zip(verdicts) {
                        words[*index] = Some(match verdict {
                            Verdict::Published => Word::Published,
                            Verdict::Nacked => {
                                let key = rows[*index].routing_key.as_str();
                                not_taken(waits.get(key).copied().unwrap_or_default(), NACKED, exchange, key)
                            }
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
                    let word = |key: &str| {
                        Word::NoExchange(format!("{code} {text}: exchange {exchange:?}, routing key {key:?}"))
                    };
                    say(&part, &word);
                    parts.drain(..).for_each(|rest| say(&rest, &word));
                }
                BatchEnd::ConnectionClosed { .. } | BatchEnd::Unreadable if !suspect => {
                    suspect = true;
                    parts.push(part);
                }
                BatchEnd::ChannelClosed { code, text } | BatchEnd::ConnectionClosed { code, text } => {
                    if part.len() == 1 {
                        say(&part, &|key| {
                            Word::Refused(format!("{code} {text}: exchange {exchange:?}, routing key {key:?}"))
                        });
                    } else {
                        let mut first = part;
                        let second = first.split_off(first.len() / 2);
                        parts.push(second);
                        parts.push(first);
                    }
                }
                // Alone on the connection, so it is this exchange: each try costs a connection, and what is spent by it may not be the event's own.
                BatchEnd::Unreadable => {
                    let asked = part.iter().map(|(_, outgoing)| (outgoing.routing_key.as_str(), false));
                    let waits = self.relay.destinations.answered(exchange, asked, UNREADABLE);
                    let wait = waits.values().max().copied().unwrap_or_default();
                    let word = |key: &str| not_taken(wait, UNREADABLE, exchange, key);
                    say(&part, &word);
                    parts.drain(..).for_each(|rest| say(&rest, &word));
                }
                // The destinations of which nothing came are left alone. Of the others nothing is known either: a return may be missing with a confirm.
                BatchEnd::Silent { confirmed } => {
                    let keys = part.iter().map(|(index, _)| rows[*index].routing_key.as_str());
                    self.relay.destinations.answered(exchange, keys.zip(confirmed), SILENT);
                    say(&part, &|key| {
                        Word::Unknown(format!("not confirmed in time: exchange {exchange:?}, routing key {key:?}"))
                    });
                }
                BatchEnd::Lost(reason) => {
                    let word =
                        |key: &str| Word::Unknown(format!("{reason}: exchange {exchange:?}, routing key {key:?}"));
                    say(&part, &word);
                    parts.drain(..).for_each(|rest| say(&rest, &word));
                }
            }
        }
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

//! The model: what was committed, what the broker took, and how each step changes it.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::pool::PoolConnection;

use super::Mistake;
use super::events::Kind;
use super::history::{Answer, End, History, Operation, Step};
use super::promises::{Checked, ensure, unexpected};
use super::table::{LEASE, Table, connection};
use crate::admin::{Admin, EventStatus, RowOutcome};
use crate::event::EventId;
use crate::outbox::{Cancel, ClaimLimits, ClaimedRow, Fate, LineCursor, Settlement, cancel_on_connection, insert};
use crate::queue::RouteClaim;
use crate::relay::batch::{Part, parts};
use crate::relay::fate::{Word, fate};
use crate::relay::line::Lines;

/// An event that was committed.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) event_id: String,
    pub(super) kind: Kind,
    pub(super) key: u8,
}

/// What a relay has between claim and settle.
pub(super) struct Held {
    claim_id: String,
    parts: Vec<(Part, Lines)>,
}

pub(super) struct Model<DB: Table> {
    pub(super) mistake: Option<Mistake>,
    pub(super) admin: Admin<DB>,
    pub(super) delete_published: bool,
    /// In the order of their commits.
    pub(super) committed: Vec<Known>,
    /// Everything the broker ever took.
    pub(super) arrived: HashSet<String>,
    /// Confirmed and not returned, or put into a queue of the database.
    pub(super) confirmed: HashSet<String>,
    /// No queue wanted it, and that is fine.
    pub(super) discarded: HashSet<String>,
    /// Later events of its key need not wait for it.
    pub(super) passable: HashSet<String>,
    /// Cancelled, or deleted by hand.
    pub(super) taken_away: HashSet<String>,
    /// Rows that a relay ever had.
    pub(super) claimed: HashSet<String>,
    pub(super) relays: [Option<Held>; 2],
    pub(super) cursor: Option<LineCursor>,
    pub(super) ids: usize,
    pub(super) claims: usize,
}

impl<DB: Table> Model<DB> {
    pub(super) async fn run(world: &DB::World, history: &History, mistake: Option<Mistake>) -> Checked {
        let mut connection = connection::<DB>(world).await;
        DB::run(&mut connection, DB::EMPTY).await;
        let mut model = Self {
            mistake,
            admin: Admin::new(DB::pool(world).clone()),
            delete_published: history.delete_published,
            committed: Vec::new(),
            arrived: HashSet::new(),
            confirmed: HashSet::new(),
            discarded: HashSet::new(),
            passable: HashSet::new(),
            taken_away: HashSet::new(),
            claimed: HashSet::new(),
            relays: [None, None],
            cursor: None,
            ids: 0,
            claims: 0,
        };
        for step in &history.steps {
            model.step(&mut connection, step).await?;
            model.holds(&mut connection).await?;
        }
        model.drain(&mut connection).await
    }

    async fn step(&mut self, connection: &mut PoolConnection<DB>, step: &Step) -> Checked {
        match step {
            Step::Enqueue { events, end } => self.enqueue(connection, events, *end).await,
            Step::Claim { relay, rows, bytes } => self.claim(connection, *relay, *rows, *bytes).await,
            Step::Publish { relay, answers } => self.publish(*relay, answers),
            Step::Settle { relay } => self.settle(connection, *relay).await,
            Step::Crash { relay } => {
                self.relays[*relay] = None;
                Ok(())
            }
            Step::Route { rows, bound } => self.route(connection, *rows, *bound).await,
            Step::Expire => {
                DB::run(connection, DB::EXPIRE).await;
                Ok(())
            }
            Step::PutBack { limit } => DB::put_back_expired(connection, *limit).await.map(drop).map_err(unexpected),
            Step::TimePasses => {
                DB::run(connection, DB::TIME_PASSES).await;
                Ok(())
            }
            Step::Sweep { .. } if self.mistake == Some(Mistake::NeverSweeps) => Ok(()),
            Step::Sweep { keys } => {
                let swept = DB::release_waiting(connection, self.cursor.as_ref(), *keys).await;
                self.cursor = swept.map_err(unexpected)?.1;
                Ok(())
            }
            Step::Purge => {
                let purged = DB::purge_published(connection, Duration::ZERO, 100).await;
                purged.map(drop).map_err(unexpected)
            }
            Step::Cancel { nth, end } => self.cancel(connection, *nth, *end).await,
            Step::Delete { nth } => self.delete(connection, *nth).await,
            Step::Operate { operation, nth } => self.operate(*operation, *nth).await,
        }
    }

    async fn enqueue(&mut self, connection: &mut PoolConnection<DB>, events: &[(Kind, u8)], end: End) -> Checked {
        let mut known = Vec::new();
        let mut drafts = Vec::new();
        for (kind, key) in events {
            self.ids += 1;
            // Not in the order of time: nothing may depend on the order of ids.
            let event_id = format!("{:02}-{}", self.ids * 37 % 100, self.ids);
            drafts.push(kind.draft(&event_id, &format!("k{key}")));
            known.push(Known { event_id, kind: *kind, key: *key });
        }
        let mut tx = DB::begin(connection).await.map_err(unexpected)?;
        insert::<DB>(&mut tx, drafts).await.map_err(unexpected)?;
        match end {
            End::Commit => {
                tx.commit().await.map_err(unexpected)?;
                self.committed.extend(known);
            }
            End::Rollback => tx.rollback().await.map_err(unexpected)?,
        }
        Ok(())
    }

    fn claim_id(&mut self, relay: &str) -> String {
        self.claims += 1;
        format!("{relay}:{}", self.claims)
    }

    pub(super) async fn claim(
        &mut self,
        connection: &mut PoolConnection<DB>,
        relay: usize,
        rows: usize,
        bytes: usize,
    ) -> Checked {
        if self.relays[relay].is_some() {
            return Ok(());
        }
        let claim_id = self.claim_id(&relay.to_string());
        let limits = ClaimLimits { rows, bytes, lease: LEASE, since: None };
        let claimed = DB::claim(connection, &claim_id, limits).await.map_err(unexpected)?.rows;
        ensure(claimed.len() <= rows, || format!("{} rows were claimed, {rows} were asked for", claimed.len()))?;
        let total: usize = claimed.iter().map(|row| row.payload.len()).sum();
        ensure(claimed.len() <= 1 || total <= bytes, || format!("{total} bytes were claimed, {bytes} were asked for"))?;
        if claimed.is_empty() {
            return Ok(());
        }
        self.claimed.extend(claimed.iter().map(|row| row.event_id.clone()));
        let parts = parts(claimed, 500, |_| false)
            .into_iter()
            .map(|part| {
                let lines = Lines::new(&part.rows, part.ordered && self.mistake != Some(Mistake::KeepsNoLine));
                (part, lines)
            })
            .collect();
        self.relays[relay] = Some(Held { claim_id, parts });
        Ok(())
    }

    /// One round of each part, as the publisher does it.
    pub(super) fn publish(&mut self, relay: usize, answers: &[Answer]) -> Checked {
        let Some(mut held) = self.relays[relay].take() else { return Ok(()) };
        let mut answers = answers.iter().cycle();
        for (part, lines) in &mut held.parts {
            for index in lines.next_round().unwrap_or_default() {
                let row = &part.rows[index];
                let word = match answers.next().copied().unwrap_or(Answer::Confirm) {
                    Answer::Confirm => {
                        self.arrives(&row.event_id)?;
                        self.confirmed.insert(row.event_id.clone());
                        Word::Published
                    }
                    Answer::LoseConfirm => {
                        self.arrives(&row.event_id)?;
                        Word::Unknown("reset".to_owned())
                    }
                    Answer::LoseMessage if self.mistake == Some(Mistake::BelievesWhatNobodyKnows) => Word::Published,
                    Answer::LoseMessage => Word::Unknown("reset".to_owned()),
                    Answer::Nack => Word::Nacked { after: Duration::from_secs(1), error: "nack".to_owned() },
                    Answer::Return => Word::Unroutable("312".to_owned()),
                    Answer::NoExchange => Word::NoExchange("404".to_owned()),
                    Answer::Refuse => Word::Refused("406".to_owned()),
                };
                let fate = self.fate(&word, row);
                lines.decide(index, fate);
            }
        }
        self.relays[relay] = Some(held);
        Ok(())
    }

    fn fate(&mut self, word: &Word, row: &ClaimedRow) -> Fate {
        let fate = fate(word, &row.budget, row.age + Duration::from_micros(1));
        self.note(&row.event_id, word, &fate);
        fate
    }

    fn note(&mut self, event_id: &str, word: &Word, fate: &Fate) {
        match (word, fate) {
            (Word::Published, _) => {}
            (_, Fate::Published) => drop(self.discarded.insert(event_id.to_owned())),
            (_, fate) if fate.lets_pass() => drop(self.passable.insert(event_id.to_owned())),
            _ => {}
        }
    }

    pub(super) async fn settle(&mut self, connection: &mut PoolConnection<DB>, relay: usize) -> Checked {
        let Some(held) = self.relays[relay].take() else { return Ok(()) };
        let claim_id = held.claim_id;
        let mut settlements = Vec::new();
        for (part, lines) in held.parts {
            for (row, fate) in part.rows.into_iter().zip(lines.fates()) {
                settlements.push(Settlement { event_id: row.event_id, claim_id: claim_id.clone(), fate });
            }
        }
        DB::settle(connection, &settlements, self.delete_published).await.map_err(unexpected)?;
        Ok(())
    }

    async fn route(&mut self, connection: &mut PoolConnection<DB>, rows: usize, bound: bool) -> Checked {
        DB::run(connection, if bound { DB::BIND } else { DB::UNBIND }).await;
        let claim_id = self.claim_id("route");
        let limits = ClaimLimits { rows, bytes: 100_000, lease: LEASE, since: None };
        let round = RouteClaim { claim_id, prefix: String::new(), limits, delete_published: self.delete_published };
        let routed = DB::route_due(connection, &round).await.map_err(unexpected)?;
        let queued = DB::take_queue(connection).await;
        for event_id in &queued {
            self.arrives(event_id)?;
            self.confirmed.insert(event_id.clone());
        }
        let mut settlements = Vec::new();
        for row in &routed.rows {
            self.claimed.insert(row.event_id.clone());
            ensure(row.published == queued.contains(&row.event_id), || {
                format!("{} is or is not queued", row.event_id)
            })?;
            if !row.published {
                let word = Word::Unroutable("no queue".to_owned());
                let fate = fate(&word, &row.budget, row.age + Duration::from_micros(1));
                self.note(&row.event_id, &word, &fate);
                settlements.push(Settlement { event_id: row.event_id.clone(), claim_id: round.claim_id.clone(), fate });
            }
        }
        let settled = DB::settle(connection, &settlements, self.delete_published).await.map_err(unexpected)?.settled;
        ensure(settled == settlements.len() as u64, || format!("{settled} of {} were ours", settlements.len()))
    }

    async fn cancel(&mut self, connection: &mut PoolConnection<DB>, nth: usize, end: End) -> Checked {
        let Some(event) = self.committed.iter().cycle().take(40).nth(nth).cloned() else { return Ok(()) };
        let event_id = EventId::parse(&event.event_id).map_err(|problem| unexpected(format!("{problem:?}")))?;
        let mut tx = DB::begin(connection).await.map_err(unexpected)?;
        let cancel = cancel_on_connection::<DB>(&mut tx, &event_id).await.map_err(unexpected)?;
        match end {
            End::Commit => tx.commit().await.map_err(unexpected)?,
            End::Rollback => return tx.rollback().await.map_err(unexpected),
        }
        if cancel == Cancel::Cancelled {
            ensure(!self.arrived.contains(&event.event_id), || {
                format!("{} was cancelled, and the broker has it", event.event_id)
            })?;
            self.taken_away.insert(event.event_id);
        }
        Ok(())
    }

    async fn delete(&mut self, connection: &mut PoolConnection<DB>, nth: usize) -> Checked {
        let rows = DB::rows(connection).await;
        let unpublished: Vec<_> = rows.iter().filter(|row| row.status != "Published").collect();
        if let Some(row) = unpublished.iter().cycle().take(40).nth(nth) {
            DB::delete(connection, &row.event_id).await;
            self.taken_away.insert(row.event_id.clone());
        }
        Ok(())
    }

    async fn operate(&mut self, operation: Operation, nth: usize) -> Checked {
        let Some(event) = self.committed.iter().cycle().take(40).nth(nth).cloned() else { return Ok(()) };
        let (admin, id) = (&self.admin, event.event_id.as_str());
        let report = match operation {
            Operation::RetryNow => admin.retry_now(id).await,
            Operation::Fail => admin.fail(id, "test").await,
            Operation::Discard => admin.discard(id, "test").await,
            Operation::Skip => admin.skip(id).await,
            Operation::Replay => admin.replay(id).await,
        };
        let [row] = &report.map_err(unexpected)?.rows[..] else { return Err(unexpected("not one row")) };
        match (&row.outcome, operation) {
            (RowOutcome::Done, Operation::Discard) => drop(self.taken_away.insert(event.event_id)),
            (RowOutcome::Done, Operation::Skip) => drop(self.passable.insert(event.event_id)),
            (RowOutcome::Done, Operation::Fail) if event.kind.skips() => drop(self.passable.insert(event.event_id)),
            (RowOutcome::Done, Operation::Replay) => {
                ensure(row.was == Some(EventStatus::Published), || format!("{id} was {:?} and is replayed", row.was))?;
            }
            (RowOutcome::Busy { .. }, _) => {
                let held = self.claimed.contains(id);
                ensure(held, || format!("{id} is said to be busy, and no relay ever had it"))?;
            }
            _ => {}
        }
        Ok(())
    }
}

//! The dedup window of one consumer (S7): its floor follows the clock of the database, but never past what is still to come.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::broker::Transport;
use crate::consumer::Consumer;
use crate::consumer::identify::Incoming;
use crate::inbox::FloorMove;
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::{Repeated, names};

const INTERVAL: Duration = Duration::from_secs(30);
/// How long an announced floor stands before rows below it are deleted: far longer than any statement runs.
const GRACE: Duration = Duration::from_secs(600);
/// How long a floor stays where it is after a message from below the next one.
const HOLD: Duration = Duration::from_secs(3600);
const CHUNK: i64 = 1_000;

/// Moves the floor at intervals. Runs on the service's own runtime.
pub(super) async fn run<DB: Store>(consumer: Arc<Consumer<DB>>, transport: Transport) {
    let mut tick = interval(INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut trouble = Repeated::new();
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = consumer.stopping.cancelled() => return,
        }
        let advance = may_advance(&consumer, &transport).await;
        let floor = FloorMove { keep: consumer.dedup_window, grace: GRACE, advance };
        let moved = async {
            loop {
                let mut session = Session::writer(&consumer.pool).await?;
                let statement = DB::move_floor(session.connection()?, &consumer.plan.name, &floor, CHUNK);
                let result = within(consumer.statement, statement).await;
                let purged = session.finish(result)?;
                metrics::counter!(names::INBOX_PURGED, "consumer" => consumer.plan.name.clone()).increment(purged);
                if purged < CHUNK.unsigned_abs() || consumer.stopping.is_cancelled() {
                    return Ok::<(), sqlx::Error>(());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match moved.await {
            Ok(()) => drop(trouble.clear()),
            Err(error) => {
                if let Some(count) = trouble.note(&error.to_string()) {
                    tracing::warn!(consumer = %consumer.plan.name, %error, failures = count, "retention of the inbox failed; trying again");
                }
            }
        }
    }
}

/// The consumer runs, and what it receives is newer than the next floor: it received something and nothing old, or its queue is empty.
async fn may_advance<DB: Store>(consumer: &Consumer<DB>, transport: &Transport) -> bool {
    let subscribed =
        consumer.board.health().component(&format!("consumer {}", consumer.plan.name)).is_some_and(|c| c.up);
    if !subscribed || consumer.window.lock().await.old_seen.is_some_and(|at| at.elapsed() < HOLD) {
        return false;
    }
    if std::mem::take(&mut consumer.window.lock().await.fresh_seen) {
        return true;
    }
    consumer.waiting(transport).await == Some(0)
}

/// What was received since the last look.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    fresh_seen: bool,
    old_seen: Option<Instant>,
    held: Option<Instant>,
}

impl<DB: Store> Consumer<DB> {
    /// Notes how old a message is; one that is older than the window keeps every instance's floor where it is.
    pub(crate) async fn note_age(&self, incoming: &Incoming) {
        let Some(enqueued_at) = incoming.entry.enqueued_at else { return };
        let age = (chrono::Utc::now() - enqueued_at).to_std().unwrap_or_default();
        // An hour of margin for clocks that differ: the floor itself goes by the database's.
        let old = age + HOLD > self.dedup_window;
        let mut seen = self.window.lock().await;
        if !old {
            seen.fresh_seen = true;
            return;
        }
        seen.old_seen = Some(Instant::now());
        if seen.held.is_some_and(|at| at.elapsed() < Duration::from_secs(60)) {
            return;
        }
        seen.held = Some(Instant::now());
        drop(seen);
        let held = async {
            let mut session = Session::writer(&self.pool).await?;
            let result = within(self.statement, DB::hold_floor(session.connection()?, &self.plan.name, HOLD)).await;
            session.finish(result)
        };
        if let Err(error) = held.await {
            tracing::warn!(consumer = %self.plan.name, %error, "the floor of the dedup window could not be held");
        }
    }
}

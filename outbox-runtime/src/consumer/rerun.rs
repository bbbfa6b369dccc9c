//! Re-running parked messages: any instance claims what is due (C2, C3).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::alert::Alert;
use crate::consumer::Consumer;
use crate::consumer::attempt::{self, ENDED, End, Origin};
use crate::consumer::decide::{Decision, FailureKind, decide};
use crate::consumer::deliver::{CONFLICTS, Lost, conflict_pause};
use crate::consumer::identify::{Incoming, identify};
use crate::consumer::park::{new_parked, park};
use crate::inbox::{NewParked, ParkedClaim, ParkedRow, ParkedStatus, Reason, Reparked, Stamp};
use crate::raw::{Properties, RawMessage};
use crate::store::session::{Session, within};
use crate::store::{Condition, Store};
use crate::telemetry::names;

/// How long a claim holds until the run's own transaction takes the row.
const LEASE: Duration = Duration::from_secs(60);
/// The longest pause between two looks for due messages.
const POLL: Duration = Duration::from_secs(1);

/// What a person reads about [`Reason::RecordDisagrees`].
const DISAGREES: &str = "its row in inbox_messages is not Retrying, so it cannot run: to run it again, turn both rows in one transaction (docs/operations.md)";

/// At once, if somebody can.
const PUT_BACK: Reparked = Reparked::PutBack { after: Duration::ZERO };

/// Looks for due messages of one consumer. Runs on the service's own tokio runtime.
pub(super) async fn run<DB: Store>(consumer: Arc<Consumer<DB>>) {
    loop {
        let due = consumer.next_rerun(POLL);
        tokio::select! {
            () = due => {}
            () = consumer.stopping.cancelled() => return,
        }
        tokio::select! {
            () = consumer.gate.open() => {}
            () = consumer.stopping.cancelled() => return,
        }
        // One permit is enough to look; more are taken as they are free.
        let first = tokio::select! {
            biased;
            () = consumer.stopping.cancelled() => return,
            permit = Arc::clone(&consumer.permits).acquire_owned() => permit,
        };
        let Ok(first) = first else { return };
        let mut permits = vec![first];
        while let Ok(permit) = Arc::clone(&consumer.permits).try_acquire_owned() {
            permits.push(permit);
        }
        let look = async {
            let mut session = Session::writer(&consumer.pool).await?;
            let result = look(&consumer, session.connection()?, permits.len() as i64).await;
            session.finish(result)
        };
        let Looked { claim_id, rows, alone } = match look.await {
            Ok(looked) => looked,
            Err(error) => {
                trouble(&consumer, &error).await;
                continue;
            }
        };
        if rows.len() == permits.len() {
            consumer.rerun_after(Duration::ZERO);
        }
        for row in rows {
            let permit = permits.pop();
            spawn(&consumer, row, claim_id.clone(), permit);
        }
        drop(permits);
        if alone {
            match run_alone(&consumer).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => trouble(&consumer, &error).await,
            }
        }
    }
}

/// What is due.
struct Looked {
    claim_id: String,
    rows: Vec<ParkedRow>,
    /// Whether something is due that must run alone.
    alone: bool,
}

async fn look<DB: Store>(
    consumer: &Consumer<DB>,
    connection: &mut DB::Connection,
    limit: i64,
) -> Result<Looked, sqlx::Error> {
    let claim = claim(consumer, limit, false);
    let rows = within(consumer.statement, DB::claim_parked(&mut *connection, &claim)).await?;
    let alone = within(consumer.statement, DB::alone_due(connection, &consumer.plan.name)).await?;
    Ok(Looked { claim_id: claim.claim_id, rows, alone })
}

fn claim<DB: Store>(consumer: &Consumer<DB>, limit: i64, alone: bool) -> ParkedClaim {
    ParkedClaim {
        consumer: consumer.plan.name.clone(),
        claim_id: format!("{}:{}", consumer.instance, ulid::Ulid::new()),
        limit,
        lease: LEASE,
        alone,
    }
}

/// A conflict is nobody's failure; anything else pauses the consumer until the database answers.
async fn trouble<DB: Store>(consumer: &Consumer<DB>, error: &sqlx::Error) {
    if DB::condition(error) == Some(Condition::Conflict) {
        sleep(conflict_pause(1)).await;
    } else {
        consumer.gate.close(&error.to_string());
    }
}

/// A message that may take the process with it takes nobody else's run with it, nor an attempt of another one: it is claimed, and so spends its
/// attempt, only when nothing else runs. `false` if the runtime stops first.
async fn run_alone<DB: Store>(consumer: &Arc<Consumer<DB>>) -> Result<bool, sqlx::Error> {
    let all = u32::from(consumer.plan.concurrency);
    let permits = tokio::select! {
        biased;
        () = consumer.stopping.cancelled() => return Ok(false),
        permits = Arc::clone(&consumer.permits).acquire_many_owned(all) => permits.ok(),
    };
    let claim = claim(consumer, 1, true);
    let mut session = Session::writer(&consumer.pool).await?;
    let result = within(consumer.statement, DB::claim_parked(session.connection()?, &claim)).await;
    if let Some(row) = session.finish(result)?.pop() {
        spawn(consumer, row, claim.claim_id, permits);
        consumer.rerun_after(Duration::ZERO);
    }
    Ok(true)
}

fn spawn<DB: Store>(
    consumer: &Arc<Consumer<DB>>,
    row: ParkedRow,
    claim_id: String,
    permits: Option<OwnedSemaphorePermit>,
) {
    let task = Arc::clone(consumer);
    consumer.tasks.spawn(async move {
        if let Some(reparked) = decide_row(&task, &row, &claim_id).await {
            end(&task, &row, &claim_id, &reparked).await;
        }
        drop(permits);
    });
}

/// Runs the message; `None` if its row is gone or not ours any more.
async fn decide_row<DB: Store>(consumer: &Consumer<DB>, row: &ParkedRow, claim_id: &str) -> Option<Reparked> {
    let properties: Properties = serde_json::from_str(&row.properties).unwrap_or_default();
    let raw = RawMessage { body: row.body.clone(), properties };
    let incoming = match identify(&raw, &consumer.plan.name, consumer.max_body) {
        Ok(incoming) => incoming,
        Err(rejected) => return Some(Reparked::Dead { reason: rejected.reason, error: rejected.error }),
    };
    let handler = match consumer.handler(&incoming) {
        Ok(handler) => handler,
        // Another build may know it: this one lets it wait, and that is no attempt.
        Err((_, error)) => {
            tracing::debug!(consumer = %consumer.plan.name, parked_id = row.parked_id, %error, "a parked message waits for another build");
            return Some(Reparked::PutBack { after: Duration::from_secs(30) });
        }
    };
    let attempts = u32::try_from(row.attempts).unwrap_or(u32::MAX);
    if attempts > handler.retry.max_attempts {
        let error = "its runs never came to an end: the process or its connection was lost each time".to_owned();
        return Some(Reparked::Dead { reason: Reason::AttemptsSpent, error });
    }
    let origin = Origin::Parked { parked_id: row.parked_id, claim_id };
    let (mut conflicts, mut losses) = (0_u32, 0_u32);
    loop {
        let (kind, error) = match attempt::run(consumer, handler, &incoming, &raw.body, origin, attempts).await {
            End::Committed => {
                consumer.record_effect(&incoming);
                return None;
            }
            End::Abandoned | End::Known(_) | End::Reused | End::TooOld => {
                metrics::counter!(names::ABANDONED, "consumer" => consumer.plan.name.clone()).increment(1);
                // Fenced by the claim: if somebody else has the row, nothing happens. If it is still ours, its dedup record is the reason.
                return Some(Reparked::Dead { reason: Reason::RecordDisagrees, error: DISAGREES.to_owned() });
            }
            End::Interrupted => return Some(PUT_BACK),
            End::Conflict(error) => {
                metrics::counter!(names::CONFLICTS, "consumer" => consumer.plan.name.clone()).increment(1);
                conflicts += 1;
                if conflicts < CONFLICTS {
                    sleep(conflict_pause(conflicts)).await;
                    continue;
                }
                (FailureKind::Error, error)
            }
            End::NotBegun(error) => {
                consumer.lost(&error, &mut 0).await;
                if consumer.gate.watch().borrow().is_none() {
                    continue;
                }
                return Some(PUT_BACK);
            }
            End::Lost(error) => match consumer.lost(&error, &mut losses).await {
                Lost::Again if consumer.gate.watch().borrow().is_none() => continue,
                Lost::Again => return Some(PUT_BACK),
                Lost::HandlersFault(error) => (FailureKind::ConnectionLost, error),
            },
            End::Failed(kind, error) => (kind, error),
            End::Ended(stamp) => {
                consumer.record_failure(&incoming, FailureKind::Ended, ENDED, attempts);
                return ended(consumer, row, &raw, &incoming, claim_id, stamp).await;
            }
        };
        consumer.record_failure(&incoming, kind, &error, attempts);
        return Some(match decide(kind, attempts, true, handler.retry) {
            Decision::RunNow => Reparked::Again { after: Duration::ZERO, error },
            Decision::Park(after) => Reparked::Again { after, error },
            Decision::Dead(reason) => Reparked::Dead { reason, error },
        });
    }
}

/// After a run whose handler ended the transaction by itself. Its COMMIT has deleted the parked row: the message is parked anew.
async fn ended<DB: Store>(
    consumer: &Consumer<DB>,
    row: &ParkedRow,
    raw: &RawMessage,
    incoming: &Incoming,
    claim_id: &str,
    stamp: Stamp,
) -> Option<Reparked> {
    let (reason, error) = (Reason::EndedTransaction, ENDED.to_owned());
    if end(consumer, row, claim_id, &Reparked::Dead { reason, error: error.clone() }).await {
        return None;
    }
    let attempts = u32::try_from(row.attempts).unwrap_or(u32::MAX);
    let parked = new_parked(consumer, raw, incoming, ParkedStatus::Dead, reason, error, attempts);
    let parked = NewParked { ended: Some(stamp), isolated: row.isolated, ..parked };
    park(consumer, parked, None, &CancellationToken::new()).await;
    None
}

/// Writes the end of a run that did not commit; tries until it works or the claim has run out anyway. Whether the row was still ours.
async fn end<DB: Store>(consumer: &Consumer<DB>, row: &ParkedRow, claim_id: &str, reparked: &Reparked) -> bool {
    let started = tokio::time::Instant::now();
    loop {
        let written = async {
            let mut session = Session::writer(&consumer.pool).await?;
            let statement = DB::repark(session.connection()?, row.parked_id, claim_id, reparked);
            let result = within(consumer.statement, statement).await;
            session.finish(result)
        };
        match written.await {
            Ok(true) => break,
            Ok(false) => return false,
            Err(error) => {
                consumer.gate.close(&error.to_string());
                tokio::select! {
                    () = consumer.gate.open() => {}
                    () = consumer.abort.cancelled() => return false,
                }
                if started.elapsed() > LEASE * 2 {
                    return false;
                }
            }
        }
    }
    match reparked {
        Reparked::Again { after, .. } => {
            metrics::counter!(names::PARKED, "consumer" => consumer.plan.name.clone(), "reason" => Reason::HandlerFailed.as_str()).increment(1);
            consumer.rerun_after(*after);
        }
        Reparked::Dead { reason, error } => {
            metrics::counter!(names::DEAD, "consumer" => consumer.plan.name.clone(), "reason" => reason.as_str())
                .increment(1);
            consumer.board.alerts().raise(|| Alert::MessageDead {
                consumer: consumer.plan.name.clone(),
                event_id: row.event_id.clone(),
                reason: reason.as_str().to_owned(),
                error: Some(error.clone()),
            });
            tracing::error!(consumer = %consumer.plan.name, parked_id = row.parked_id, event_id = row.event_id, reason = reason.as_str(), %error, "a message is Dead; it waits in parked_messages");
        }
        Reparked::PutBack { .. } => {}
    }
    true
}

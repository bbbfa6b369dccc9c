//! Re-running parked messages: any instance claims what is due (C2, C3).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::consumer::Consumer;
use crate::consumer::attempt::{self, ENDED, End, Origin};
use crate::consumer::decide::{Decision, FailureKind, decide};
use crate::consumer::deliver::{CONFLICTS, Lost, conflict_pause, new_parked, park};
use crate::consumer::identify::{Incoming, identify};
use crate::consumer::raw::{Properties, RawMessage};
use crate::inbox::{NewParked, ParkedClaim, ParkedRow, ParkedStatus, Reason, Reparked, Stamp};
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::names;

/// How long a claim holds until the run's own transaction takes the row.
const LEASE: Duration = Duration::from_secs(60);
/// The longest pause between two looks for due messages.
const POLL: Duration = Duration::from_secs(1);

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
        let claim_id = format!("{}:{}", consumer.instance, ulid::Ulid::new());
        let claim = ParkedClaim {
            consumer: consumer.plan.name.clone(),
            claim_id: claim_id.clone(),
            limit: permits.len() as i64,
            lease: LEASE,
        };
        let claimed = async {
            let mut session = Session::acquire(&consumer.pool).await?;
            let result = within(consumer.statement, DB::claim_parked(session.connection()?, &claim)).await;
            session.finish(result)
        };
        let rows = match claimed.await {
            Ok(rows) => rows,
            Err(error) => {
                consumer.gate.close(&error.to_string());
                continue;
            }
        };
        if rows.len() == permits.len() {
            consumer.rerun_after(Duration::ZERO);
        }
        for row in rows {
            let (consumer, claim_id) = (Arc::clone(&consumer), claim_id.clone());
            let permit = permits.pop();
            consumer.tasks.clone().spawn(async move { rerun(&consumer, row, &claim_id, permit).await });
        }
    }
}

async fn rerun<DB: Store>(
    consumer: &Consumer<DB>,
    row: ParkedRow,
    claim_id: &str,
    permit: Option<OwnedSemaphorePermit>,
) {
    // A message that may take the process with it takes nobody else's run with it.
    let _alone = if row.isolated {
        drop(permit);
        let all = u32::from(consumer.plan.concurrency);
        let alone = Arc::clone(&consumer.permits).acquire_many_owned(all);
        let permits = tokio::select! {
            biased;
            () = consumer.stopping.cancelled() => None,
            // No longer than the claim holds: a claim by somebody else would be an attempt without a run.
            permits = tokio::time::timeout(LEASE / 2, alone) => permits.ok().and_then(Result::ok),
        };
        if permits.is_none() {
            end(consumer, row.parked_id, claim_id, &PUT_BACK).await;
            return;
        }
        permits
    } else {
        permit
    };
    let reparked = decide_row(consumer, &row, claim_id).await;
    if let Some(reparked) = reparked {
        end(consumer, row.parked_id, claim_id, &reparked).await;
    }
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
                return None;
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
    if end(consumer, row.parked_id, claim_id, &Reparked::Dead { reason, error: error.clone() }).await {
        return None;
    }
    let attempts = u32::try_from(row.attempts).unwrap_or(u32::MAX);
    let parked = new_parked(consumer, raw, incoming, ParkedStatus::Dead, reason, error, attempts);
    park(consumer, NewParked { ended: Some(stamp), isolated: row.isolated, ..parked }, &CancellationToken::new()).await;
    None
}

/// Writes the end of a run that did not commit; tries until it works or the claim has run out anyway. Whether the row was still ours.
async fn end<DB: Store>(consumer: &Consumer<DB>, parked_id: i64, claim_id: &str, reparked: &Reparked) -> bool {
    let started = tokio::time::Instant::now();
    loop {
        let written = async {
            let mut session = Session::acquire(&consumer.pool).await?;
            let statement = DB::repark(session.connection()?, parked_id, claim_id, reparked);
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
            tracing::error!(consumer = %consumer.plan.name, parked_id, reason = reason.as_str(), %error, "a message is Dead; it waits in parked_messages");
        }
        Reparked::PutBack { .. } => {}
    }
    true
}

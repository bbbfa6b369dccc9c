//! One run: one transaction of {dedup record, handler, collected events}, and what is known after it.
//!
//! The engine owns the connection. After anything but a clean end — a timeout, a panic, a shutdown, a statement without an answer — the
//! connection is closed hard and never goes back to its pool (C5).

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use sqlx::Transaction;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::consumer::decide::FailureKind;
use crate::consumer::identify::Incoming;
use crate::consumer::plan::HandlerPlan;
use crate::consumer::{Consumer, end};
use crate::error::{EnqueueError, HandlerError};
use crate::event::{Draft, Metadata, trace};
use crate::handler::{Call, Delivery, Emit};
use crate::inbox::{Disposition, InboxRecord, Stamp};
use crate::queue::QueueKey;
use crate::store::session::{Session, within};
use crate::store::{Condition, Store};
use crate::telemetry::names;

/// How a run ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Everything is durable.
    Committed,
    /// The event was decided on before.
    Known(Disposition),
    /// The id belongs to another event.
    Reused,
    /// Older than the dedup window.
    TooOld,
    /// Somebody else has this parked message now.
    Abandoned,
    /// The handler failed.
    Failed(FailureKind, String),
    /// The handler ended the transaction by itself; nobody knows what of the run is done.
    Ended(Stamp),
    /// Two transactions got into each other's way; nobody's failure.
    Conflict(String),
    /// The database was lost before the handler ran: nothing about this message.
    NotBegun(String),
    /// The connection or the database was lost; whether a commit arrived is unknown.
    Lost(String),
    /// The runtime stops.
    Interrupted,
}

/// How a run left its connection, before anything else is asked of the database.
pub(super) struct Left {
    pub(super) end: End,
    /// Whether the connection may go back to its pool.
    pub(super) clean: bool,
    /// The handler's error says that a database is out of reach: ours, or another one that it talked to.
    pub(super) suspect: bool,
}

impl Left {
    fn new(end: End, clean: bool) -> Self {
        Self { end, clean, suspect: false }
    }
}

/// Where a run's dedup record comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// A delivery: insert it; out of a database queue, take it with the same statement.
    Delivery(Option<&'a QueueKey>),
    /// A parked message: take it.
    Parked { parked_id: i64, claim_id: &'a str },
}

/// How long the server may take to roll back.
pub(super) const ROLLBACK: Duration = Duration::from_secs(5);

/// Runs a handler once.
pub(crate) async fn run<DB: Store>(
    consumer: &Consumer<DB>,
    handler: &HandlerPlan,
    incoming: &Incoming,
    body: &[u8],
    origin: Origin<'_>,
    attempt: u32,
) -> End {
    let room = tokio::select! {
        biased;
        room = consumer.room.acquire() => room,
        () = consumer.stopping.cancelled() => return End::Interrupted,
    };
    let mut session = match Session::writer(&consumer.pool).await {
        Ok(session) => session,
        Err(error) => return End::NotBegun(error.to_string()),
    };
    let mut stamp = None;
    let Left { mut end, clean, suspect } = match session.connection() {
        Ok(connection) => {
            in_transaction(consumer, connection, handler, incoming, body, origin, attempt, &mut stamp).await
        }
        Err(error) => Left::new(End::NotBegun(error.to_string()), false),
    };
    if clean {
        session.release();
    } else {
        drop(session);
    }
    drop(room);
    // Only ours pauses the consumer. Asked after the connection, and the turn to write, are given back.
    if suspect && let Err(error) = super::gate::Gate::check(&consumer.pool).await {
        end = End::Lost(error);
    }
    match (end, stamp) {
        (End::Failed(kind, error), Some(stamp)) => after_failure(consumer, incoming, stamp, clean, kind, error).await,
        (End::Interrupted, Some(stamp)) => {
            end_session(consumer, stamp).await;
            End::Interrupted
        }
        (end, _) => end,
    }
}

/// After a run that failed: did the handler commit by itself? And is its statement still at work on the server, with the run's locks?
async fn after_failure<DB: Store>(
    consumer: &Consumer<DB>,
    incoming: &Incoming,
    stamp: Stamp,
    clean: bool,
    kind: FailureKind,
    error: String,
) -> End {
    if kind == FailureKind::Ended {
        return End::Ended(stamp);
    }
    if !clean {
        end_session(consumer, stamp).await;
    }
    let asked = async {
        let mut session = Session::reader(&consumer.pool).await?;
        let asked = DB::committed_by_handler(session.connection()?, &incoming.entry, stamp);
        let result = within(consumer.statement, asked).await;
        session.finish(result)
    };
    match asked.await {
        Ok(true) => End::Ended(stamp),
        Ok(false) => End::Failed(kind, error),
        Err(error) => End::Lost(error.to_string()),
    }
}

/// The socket is closed already; a server process that is in a statement would not notice.
async fn end_session<DB: Store>(consumer: &Consumer<DB>, stamp: Stamp) {
    let ended = async {
        let mut session = Session::reader(&consumer.pool).await?;
        let result = within(ROLLBACK, DB::end_session(session.connection()?, stamp)).await;
        session.finish(result)
    };
    if let Err(error) = ended.await {
        tracing::debug!(consumer = %consumer.plan.name, %error, "the session of a dropped run could not be ended");
    }
}

/// What a person reads about [`End::Ended`].
pub(crate) const ENDED: &str = "the handler ended the transaction itself (COMMIT or ROLLBACK), which the engine does, with the dedup record: \
                                nobody knows what of this run is done, so it is not run again";

#[allow(clippy::too_many_arguments, reason = "all of one run")]
async fn in_transaction<DB: Store>(
    consumer: &Consumer<DB>,
    connection: &mut DB::Connection,
    handler: &HandlerPlan,
    incoming: &Incoming,
    body: &[u8],
    origin: Origin<'_>,
    attempt: u32,
    stamp: &mut Option<Stamp>,
) -> Left {
    let mut tx = match within(consumer.statement, DB::begin(connection)).await {
        Ok(tx) => tx,
        Err(error) => return Left::new(End::NotBegun(error.to_string()), false),
    };
    // The twin of this delivery may be in its handler: the unique key makes this one wait for it.
    let patience = handler.timeout + consumer.statement;
    let fresh = match origin {
        Origin::Delivery(from) => within(patience, DB::insert_inbox(&mut tx, &incoming.entry, from)).await,
        Origin::Parked { parked_id, claim_id } => within(patience, DB::begin_rerun(&mut tx, parked_id, claim_id)).await,
    };
    let run = match fresh {
        Ok(Some(run)) => *stamp.insert(run),
        Ok(None) => {
            let end = match origin {
                Origin::Parked { .. } => End::Abandoned,
                Origin::Delivery(from) => {
                    match within(consumer.statement, DB::inbox_record(&mut tx, &incoming.entry)).await {
                        Ok(InboxRecord::Known(disposition)) => End::Known(disposition),
                        Ok(InboxRecord::Reused) => End::Reused,
                        Ok(InboxRecord::TooOld) => End::TooOld,
                        // Nobody decided on it, so it is the message that is not ours any more.
                        Ok(InboxRecord::Gone) if from.is_some() => End::Abandoned,
                        Ok(InboxRecord::Gone) => End::Conflict("the dedup record vanished".to_owned()),
                        Err(error) => return Left::new(end::of_statement::<DB>(&error), false),
                    }
                }
            };
            let clean = within(ROLLBACK, DB::rollback(tx)).await.is_ok();
            return Left::new(end, clean);
        }
        Err(error) => return Left::new(end::of_statement::<DB>(&error), false),
    };

    let mut metadata = incoming.metadata.clone();
    metadata.attempt = attempt;
    let started = Instant::now();
    let ran = call(consumer, handler, incoming.form, &metadata, body, &mut tx).await;
    metrics::histogram!(
        names::HANDLER_SECONDS, "consumer" => consumer.plan.name.clone(), "event" => metadata.event_type.clone()
    )
    .record(started.elapsed());
    let mut drafts = match ran {
        Ran::Returned(Ok(drafts)) => drafts,
        Ran::Returned(Err(error)) => return end::of_handler(tx, &error).await,
        Ran::Panicked(message) => {
            return Left::new(End::Failed(FailureKind::Panic, format!("the handler panicked: {message}")), false);
        }
        Ran::TimedOut => {
            let error = format!("the handler took longer than {} s", handler.timeout.as_secs_f32());
            return Left::new(End::Failed(FailureKind::Timeout, error), false);
        }
        Ran::Interrupted => return Left::new(End::Interrupted, false),
    };

    if !drafts.is_empty()
        && let Err(refused) = within(consumer.statement, DB::prove(&mut tx, run)).await
    {
        return Left::new(end::of_commit::<DB>(refused), false);
    }
    for draft in &mut drafts {
        draft.caused_by(&metadata);
    }
    match within_enqueue(consumer.statement, crate::outbox::insert::<DB>(&mut tx, drafts)).await {
        Ok(_) => {}
        Err(EnqueueError::Database(error)) => {
            let end = match DB::condition(&error) {
                Some(Condition::Conflict) => End::Conflict(error.to_string()),
                Some(Condition::Unavailable) => End::Lost(error.to_string()),
                // 25P02 here is the handler's swallowed error.
                _ => End::Failed(FailureKind::Aborted, format!("the collected events could not be written: {error}")),
            };
            return Left::new(end, false);
        }
        Err(error) => {
            let clean = within(ROLLBACK, DB::rollback(tx)).await.is_ok();
            return Left::new(End::Failed(FailureKind::Emit, error.to_string()), clean);
        }
    }
    match within(consumer.statement, DB::commit(tx, run)).await {
        Ok(()) => Left::new(End::Committed, true),
        Err(refused) => Left::new(end::of_commit::<DB>(refused), false),
    }
}

/// How the handler's future ended.
enum Ran {
    Returned(Result<Vec<Draft>, HandlerError>),
    Panicked(String),
    TimedOut,
    Interrupted,
}

async fn call<DB: Store>(
    consumer: &Consumer<DB>,
    handler: &HandlerPlan,
    form: crate::event::Envelope,
    metadata: &Metadata,
    body: &[u8],
    tx: &mut Transaction<'_, DB>,
) -> Ran {
    let span = tracing::info_span!(
        "outbox.handle",
        consumer = %consumer.plan.name,
        event = %metadata.event_type,
        event_id = %metadata.event_id,
        attempt = metadata.attempt,
        trace_id = metadata.trace.as_ref().map(|context| context.trace_id()),
    );
    if let Some(context) = &metadata.trace {
        trace::set_parent(&span, context);
    }
    let mut call = Call {
        delivery: Delivery { metadata, body, form, states: &consumer.states, cancelled: &consumer.stopping },
        tx: DB::tx_ref(tx),
        emit: Emit::default(),
    };
    let run = async {
        // The call itself may panic before it returns its future.
        let future = AssertUnwindSafe(async { (handler.descriptor.call)(&mut call).await }).catch_unwind();
        tokio::select! {
            biased;
            ended = tokio::time::timeout(handler.timeout, future) => match ended {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(panic)) => Err(Ran::Panicked(crate::runtime::supervise::panic_text(&*panic))),
                Err(_) => Err(Ran::TimedOut),
            },
            () = consumer.abort.cancelled() => Err(Ran::Interrupted),
        }
    };
    match trace::scope(metadata.trace.clone(), run.instrument(span)).await {
        Ok(Ok(handled)) => {
            let mut drafts = std::mem::take(&mut call.emit.drafts);
            drafts.extend(handled.drafts);
            Ran::Returned(Ok(drafts))
        }
        Ok(Err(error)) => Ran::Returned(Err(error)),
        Err(ran) => ran,
    }
}

async fn within_enqueue<T>(
    deadline: Duration,
    insert: impl Future<Output = Result<T, EnqueueError>>,
) -> Result<T, EnqueueError> {
    match tokio::time::timeout(deadline, insert).await {
        Ok(result) => result,
        Err(_) => Err(EnqueueError::Database(sqlx::Error::PoolTimedOut)),
    }
}

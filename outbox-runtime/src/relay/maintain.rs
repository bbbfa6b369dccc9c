//! What the relay does at intervals: renew leases, put back expired ones, delete or move old rows, measure.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::outbox::{LineCursor, wake};
use crate::relay::{Expiry, Relay};
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::{Repeated, names};

/// Rows of one maintenance statement.
const CHUNK: i64 = 1_000;
/// The shortest and the longest pause between two rounds of retention.
const RETENTION_INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
const STATS_INTERVAL: Duration = Duration::from_secs(5);

/// Renews the leases of everything in flight, three times in their length (R2). Goes on during shutdown, as long as batches live.
pub(super) async fn renew<DB: Store>(relay: Arc<Relay<DB>>) {
    let mut tick = interval(relay.config.lease / 3);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut trouble = Repeated::new();
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = drained(&relay) => return,
        }
        let claims = relay.window.claims();
        if claims.is_empty() {
            continue;
        }
        let renewed = async {
            let mut session = Session::writer(&relay.pool).await?;
            let statement = DB::renew(session.connection()?, &claims, relay.config.lease);
            let result = within(relay.config.statement, statement).await;
            session.finish(result)
        };
        match renewed.await {
            Ok(_) => drop(trouble.clear()),
            Err(error) => {
                if let Some(count) = trouble.note(&error.to_string()) {
                    tracing::warn!(%error, failures = count, "leases could not be renewed");
                }
            }
        }
    }
}

/// Completes when the relay stops and nothing is in flight any more.
async fn drained<DB: Store>(relay: &Relay<DB>) {
    relay.stop.cancelled().await;
    while relay.window.in_flight() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sweeps and figures, and beside them retention: a table that has much to give up must not keep an expired lease from being put back.
pub(super) async fn run<DB: Store>(relay: Arc<Relay<DB>>) {
    tokio::join!(sweep(&relay), retention(&relay));
}

async fn sweep<DB: Store>(relay: &Relay<DB>) {
    let sweep = (relay.config.lease / 4).min(Duration::from_secs(2));
    let mut tick = interval(sweep);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut measured = None::<Instant>;
    let mut trouble = Repeated::new();
    let mut cursor = None;
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = relay.stop.cancelled() => return,
        }
        let round = async {
            put_back(relay).await?;
            release_waiting(relay, &mut cursor).await?;
            if measured.is_none_or(|at| at.elapsed() >= STATS_INTERVAL) {
                measure(relay).await?;
                measured = Some(Instant::now());
            }
            Ok::<(), sqlx::Error>(())
        };
        match round.await {
            Ok(()) => drop(trouble.clear()),
            Err(error) => {
                if let Some(count) = trouble.note(&error.to_string()) {
                    tracing::warn!(%error, failures = count, "maintenance of the outbox failed; trying again");
                }
            }
        }
    }
}

async fn put_back<DB: Store>(relay: &Relay<DB>) -> Result<(), sqlx::Error> {
    loop {
        let mut session = Session::writer(&relay.pool).await?;
        let statement = DB::put_back_expired(session.connection()?, CHUNK);
        let result = within(relay.config.statement, statement).await;
        let count = session.finish(result)?;
        if count > 0 {
            metrics::counter!(names::LEASE_EXPIRED).increment(count);
            tracing::info!(count, "put back events whose relay was gone");
        }
        if count < CHUNK.unsigned_abs() {
            return Ok(());
        }
    }
}

/// Events that wait for nothing: the one before them was deleted by hand, or published in the moment in which they were written (R6).
async fn release_waiting<DB: Store>(relay: &Relay<DB>, cursor: &mut Option<LineCursor>) -> Result<(), sqlx::Error> {
    let mut session = Session::writer(&relay.pool).await?;
    let statement = DB::release_waiting(session.connection()?, cursor.as_ref(), CHUNK);
    let result = within(relay.config.statement, statement).await;
    let (count, next) = session.finish(result)?;
    *cursor = next;
    if count > 0 {
        metrics::counter!(names::RELEASED).increment(count);
        wake::ENQUEUED.signal();
    }
    Ok(())
}

/// Rounds of retention: often where rows stay only for a moment.
async fn retention<DB: Store>(relay: &Relay<DB>) {
    let (shortest, longest) = RETENTION_INTERVAL;
    let mut tick = interval((relay.config.retention.after / 10).clamp(shortest, longest));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut trouble = Repeated::new();
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = relay.stop.cancelled() => return,
        }
        match clear_out(relay).await {
            Ok(()) => drop(trouble.clear()),
            Err(error) => {
                if let Some(count) = trouble.note(&error.to_string()) {
                    tracing::warn!(%error, failures = count, "retention of the outbox failed; trying again");
                }
            }
        }
    }
}

/// Chunk after chunk until nothing is old. The pause is as long as the statement was, within bounds: at usual speeds retention takes half of one
/// connection's time, which is several times the rate at which a relay publishes.
async fn clear_out<DB: Store>(relay: &Relay<DB>) -> Result<(), sqlx::Error> {
    let Expiry { after, archive } = &relay.config.retention;
    while !relay.stop.is_cancelled() {
        let mut session = Session::writer(&relay.pool).await?;
        let begun = Instant::now();
        let result = match archive {
            Some(table) => {
                let statement = DB::archive_published(session.connection()?, table, *after, CHUNK);
                within(relay.config.statement, statement).await
            }
            None => {
                let statement = DB::purge_published(session.connection()?, *after, CHUNK);
                within(relay.config.statement, statement).await
            }
        };
        let count = session.finish(result)?;
        metrics::counter!(if archive.is_some() { names::ARCHIVED } else { names::PURGED }).increment(count);
        if count < CHUNK.unsigned_abs() {
            return Ok(());
        }
        tokio::time::sleep(begun.elapsed().clamp(Duration::from_millis(5), Duration::from_millis(200))).await;
    }
    Ok(())
}

async fn measure<DB: Store>(relay: &Relay<DB>) -> Result<(), sqlx::Error> {
    let mut session = Session::reader(&relay.pool).await?;
    let result = within(relay.config.statement, DB::outbox_stats(session.connection()?)).await;
    let stats = session.finish(result)?;
    metrics::gauge!(names::PENDING).set(stats.pending as f64);
    metrics::gauge!(names::PROCESSING).set(stats.processing as f64);
    metrics::gauge!(names::HELD).set(stats.held as f64);
    metrics::gauge!(names::BLOCKED).set(stats.blocked as f64);
    metrics::gauge!(names::LATER).set(stats.later as f64);
    metrics::gauge!(names::FAILED_NOW).set(stats.failed as f64);
    metrics::gauge!(names::EXPIRED_NOW).set(stats.expired as f64);
    metrics::gauge!(names::OLDEST_UNPUBLISHED_SECONDS).set(stats.oldest.unwrap_or_default().as_secs_f64());
    Ok(())
}

//! Stage one: claims due rows while there is room and a broker to take them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::broker::rabbitmq::connection::LinkState;
use crate::outbox::{ClaimLimits, ClaimedRow, wake};
use crate::relay::{Batch, Relay};
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::{Repeated, names};

/// The first pause after a scan that found nothing; it doubles up to the configured one.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

pub(super) async fn run<DB: Store>(relay: Arc<Relay<DB>>, to_publish: mpsc::Sender<Batch>) {
    let mut enqueued = wake::listen();
    let mut link = relay.link.state();
    let mut pause = SHORTEST_PAUSE;
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    let mut trouble = Repeated::new();
    loop {
        // No broker, or a blocked one: nothing is claimed, so nothing is spent and no lease is held (R3).
        let ready = async {
            let _ = link.wait_for(|state| matches!(state, LinkState::Up(_))).await;
            relay.window.room(relay.config.batch).await
        };
        let (rows, bytes) = tokio::select! {
            room = ready => room,
            () = relay.stop.cancelled() => return,
        };
        let limits = ClaimLimits { rows, bytes, lease: relay.config.lease };
        let claim: Arc<str> = Arc::from(format!("{}:{}", relay.config.instance, ulid::Ulid::new()));
        enqueued.borrow_and_update();
        match claim_once(&relay, &claim, limits).await {
            Ok(claimed) => {
                if let Some(failures) = trouble.clear() {
                    tracing::info!(failures, "the relay reaches the database again");
                }
                relay.board.up("relay database");
                metrics::gauge!(names::DATABASE_AVAILABLE, "role" => "relay").set(1.0);
                backoff.reset();
                if claimed.is_empty() {
                    tokio::select! {
                        // The signal comes before the commit: scan soon, and then less and less often.
                        _ = enqueued.changed() => pause = SHORTEST_PAUSE,
                        () = tokio::time::sleep(pause) => {}
                        () = relay.stop.cancelled() => return,
                    }
                    tokio::time::sleep(SHORTEST_PAUSE).await;
                    pause = (pause * 2).min(relay.config.poll);
                    continue;
                }
                pause = SHORTEST_PAUSE;
                metrics::counter!(names::CLAIMED).increment(claimed.len() as u64);
                for batch in batches(&relay, claimed, &claim) {
                    if to_publish.send(batch).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                relay.board.down("relay database", error.to_string());
                metrics::gauge!(names::DATABASE_AVAILABLE, "role" => "relay").set(0.0);
                if let Some(count) = trouble.note(&error.to_string()) {
                    tracing::warn!(%error, failures = count, "the relay cannot claim; trying again for ever");
                }
                tokio::select! {
                    () = tokio::time::sleep(backoff.next()) => {}
                    () = relay.stop.cancelled() => return,
                }
            }
        }
    }
}

async fn claim_once<DB: Store>(
    relay: &Relay<DB>,
    claim: &str,
    limits: ClaimLimits,
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    let mut session = Session::acquire(&relay.pool).await?;
    let result = within(relay.config.statement, DB::claim(session.connection()?, claim, limits)).await;
    session.finish(result)
}

/// One batch for each exchange: a missing exchange closes the channel of its own events only.
fn batches<DB: Store>(relay: &Relay<DB>, claimed: Vec<ClaimedRow>, claim: &Arc<str>) -> Vec<Batch> {
    let mut by_exchange: BTreeMap<String, Vec<ClaimedRow>> = BTreeMap::new();
    for row in claimed {
        by_exchange.entry(row.exchange.clone()).or_default().push(row);
    }
    let claimed_at = Instant::now();
    by_exchange
        .into_values()
        .map(|rows| {
            let bytes = rows.iter().map(|row| row.payload.len()).sum();
            let permit = relay.window.take(claim, rows.len(), bytes);
            Batch { rows, claim: Arc::clone(claim), claimed_at, permit }
        })
        .collect()
}

//! Stage three: writes outcomes, those of many batches in one statement.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "rabbitmq")]
use tokio::sync::{Mutex, mpsc};

use crate::backoff::Backoff;
use crate::outbox::{Settled, Settlement, wake};
#[cfg(feature = "rabbitmq")]
use crate::relay::Outcomes;
use crate::relay::Relay;
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::{Repeated, names};

/// At most so many rows in one statement.
#[cfg(feature = "rabbitmq")]
const ROWS: usize = 5_000;

#[cfg(feature = "rabbitmq")]
pub(super) async fn run<DB: Store>(relay: Arc<Relay<DB>>, outcomes: Arc<Mutex<mpsc::Receiver<Outcomes>>>) {
    let mut outcomes = outcomes.lock().await;
    let mut trouble = Repeated::new();
    while let Some(first) = outcomes.recv().await {
        let mut settlements = first.settlements;
        let mut permits = vec![first.permit];
        while settlements.len() < ROWS
            && let Ok(next) = outcomes.try_recv()
        {
            settlements.extend(next.settlements);
            permits.push(next.permit);
        }
        settle(&relay, &settlements, &mut trouble).await;
        // Room for new claims only now: what is not settled is still in flight.
        drop(permits);
    }
}

/// Tries until it works: the claims are renewed meanwhile, and if they are lost, the fence makes it a no-op.
pub(super) async fn settle<DB: Store>(relay: &Relay<DB>, settlements: &[Settlement], trouble: &mut Repeated) {
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
    loop {
        match settle_once(relay, settlements).await {
            Ok(Settled { settled, pulled }) => {
                if pulled > 0 {
                    // What waited for one of these is due now: a relay of this process need not find out by itself.
                    wake::ENQUEUED.signal();
                }
                let lost = (settlements.len() as u64).saturating_sub(settled);
                if lost > 0 {
                    metrics::counter!(names::LEASE_LOST).increment(lost);
                    tracing::warn!(
                        lost,
                        "leases ran out before their batch was settled; these events are published again"
                    );
                }
                if let Some(failures) = trouble.clear() {
                    tracing::info!(failures, "the relay settles again");
                }
                return;
            }
            Err(error) => {
                if let Some(count) = trouble.note(&error.to_string()) {
                    tracing::warn!(%error, failures = count, "the relay cannot settle; trying again");
                }
                tokio::time::sleep(backoff.next()).await;
            }
        }
    }
}

async fn settle_once<DB: Store>(relay: &Relay<DB>, settlements: &[Settlement]) -> Result<Settled, sqlx::Error> {
    let mut session = Session::writer(&relay.pool).await?;
    let statement = DB::settle(session.connection()?, settlements, relay.config.delete_published);
    let result = within(relay.config.statement, statement).await;
    session.finish(result)
}

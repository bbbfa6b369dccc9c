//! Stage one: claims due rows while there is room and a broker to take them.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::broker::rabbitmq::connection::{Link, LinkState};
use crate::broker::topology::qualified;
use crate::outbox::{ClaimLimits, Claimed, ClaimedRow};
use crate::relay::batch::parts;
use crate::relay::hint::Hint;
use crate::relay::reach::Reach;
use crate::relay::sleep::Sleep;
use crate::relay::{Batch, Relay};
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::names;

pub(super) async fn run<DB: Store>(relay: Arc<Relay<DB>>, link: Arc<Link>, to_publish: mpsc::Sender<Batch>) {
    let mut sleep = Sleep::new(&relay);
    let mut link = link.state();
    let (mut reach, mut hint) = (Reach::new(), Hint::default());
    loop {
        // No broker, or a blocked one: nothing is claimed, so nothing is spent and no lease is held (R3).
        let ready = async {
            let _ = link.wait_for(|state| matches!(state, LinkState::Up(_))).await;
            relay.window.room(relay.config.batch, relay.config.batch).await
        };
        let (rows, bytes) = tokio::select! {
            room = ready => room,
            () = relay.stop.cancelled() => return,
        };
        let limits = ClaimLimits { rows, bytes, lease: relay.config.lease, since: hint.since() };
        let claim: Arc<str> = Arc::from(format!("{}:{}", relay.config.instance, ulid::Ulid::new()));
        sleep.scanning();
        match claim_once(&relay, &claim, limits).await {
            Ok(Claimed { rows: claimed, deferred, met }) => {
                hint.met(met);
                reach.there(&relay);
                metrics::counter!(names::DEFERRED).increment(deferred);
                if claimed.is_empty() && deferred == 0 {
                    if !sleep.rest().await {
                        return;
                    }
                    continue;
                }
                sleep.found();
                metrics::counter!(names::CLAIMED).increment(claimed.len() as u64);
                for batch in batches(&relay, claimed, &claim) {
                    if to_publish.send(batch).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                if !reach.lost(&relay, &error).await {
                    return;
                }
            }
        }
    }
}

async fn claim_once<DB: Store>(relay: &Relay<DB>, claim: &str, limits: ClaimLimits) -> Result<Claimed, sqlx::Error> {
    let mut session = Session::writer(&relay.pool).await?;
    let result = within(relay.config.statement, DB::claim(session.connection()?, claim, limits)).await;
    session.finish(result)
}

fn batches<DB: Store>(relay: &Relay<DB>, claimed: Vec<ClaimedRow>, claim: &Arc<str>) -> Vec<Batch> {
    let claimed_at = Instant::now();
    let doubted = |row: &ClaimedRow| {
        let exchange = qualified(relay.config.namespace.as_deref(), &row.exchange);
        relay.destinations.doubt(&exchange, &row.routing_key).is_some()
    };
    parts(claimed, relay.config.batch, doubted)
        .into_iter()
        .map(|part| {
            let bytes = part.rows.iter().map(|row| row.payload.len()).sum();
            let permit = relay.window.take(claim, part.rows.len(), bytes);
            Batch { part, claim: Arc::clone(claim), claimed_at, permit }
        })
        .collect()
}

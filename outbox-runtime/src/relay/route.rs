//! The relay of the broker "database": one statement claims due rows, puts them into the queues that are bound and marks them Published; what
//! no queue wants is settled by the same rules as what RabbitMQ returns (R3, R4).

use std::sync::Arc;

use crate::outbox::{ClaimLimits, Settlement};
use crate::queue::{RouteClaim, Routed, RoutedRow};
use crate::relay::fate::{Word, fate};
use crate::relay::hint::Hint;
use crate::relay::reach::Reach;
use crate::relay::record::{Told, record};
use crate::relay::sleep::Sleep;
use crate::relay::{Relay, settle};
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::{Repeated, names};

pub(super) async fn run<DB: Store>(relay: Arc<Relay<DB>>) {
    let mut sleep = Sleep::new(&relay);
    let (mut reach, mut hint, mut trouble) = (Reach::new(), Hint::default(), Repeated::new());
    let prefix = relay.config.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}."));
    loop {
        if relay.stop.is_cancelled() {
            return;
        }
        let claim: Arc<str> = Arc::from(format!("{}:{}", relay.config.instance, ulid::Ulid::new()));
        let limits = ClaimLimits {
            rows: relay.config.batch,
            bytes: relay.config.window_bytes,
            lease: relay.config.lease,
            since: hint.since(),
        };
        let round = RouteClaim {
            claim_id: claim.as_ref().to_owned(),
            prefix: prefix.clone(),
            limits,
            delete_published: relay.config.delete_published,
        };
        sleep.scanning();
        // The rows that stay claimed are renewed and, after the deadline of a shutdown, put back like those of any claim.
        let permit = relay.window.take(&claim, 0, 0);
        match route_once(&relay, &round).await {
            Ok(Routed { rows, deferred: 0, met }) if rows.is_empty() => {
                hint.met(met);
                reach.there(&relay);
                drop(permit);
                if !sleep.rest().await {
                    return;
                }
            }
            Ok(Routed { rows, deferred, met }) => {
                hint.met(met);
                reach.there(&relay);
                sleep.found();
                metrics::counter!(names::CLAIMED).increment(rows.len() as u64);
                metrics::counter!(names::DEFERRED).increment(deferred);
                if rows.iter().any(|row| row.published) {
                    relay.teller.routed();
                }
                let unrouted: Vec<Settlement> =
                    rows.iter().filter_map(|row| decide(&relay, row, &prefix, &claim)).collect();
                if !unrouted.is_empty() {
                    settle::settle(&relay, &unrouted, &mut trouble).await;
                }
            }
            Err(error) => {
                drop(permit);
                if !reach.lost(&relay, &error).await {
                    return;
                }
            }
        }
    }
}

async fn route_once<DB: Store>(relay: &Relay<DB>, round: &RouteClaim) -> Result<Routed, sqlx::Error> {
    let mut session = Session::writer(&relay.pool).await?;
    let result = within(relay.config.statement, DB::route_due(session.connection()?, round)).await;
    session.finish(result)
}

/// Records what became of a row; what is still claimed gets its fate.
fn decide<DB: Store>(relay: &Relay<DB>, row: &RoutedRow, prefix: &str, claim: &str) -> Option<Settlement> {
    let exchange = format!("{prefix}{}", row.exchange);
    let word = match (&row.defect, row.published) {
        (_, true) => Word::Published,
        (None, false) => Word::Unroutable(format!(
            "no queue is bound to exchange {exchange:?} for routing key {:?}",
            row.routing_key
        )),
        (Some(defect), false) => Word::Refused(defect.clone()),
    };
    let fate = fate(&word, &row.budget, row.age);
    let told = Told {
        event_id: &row.event_id,
        event_type: &row.event_type,
        routing_key: &row.routing_key,
        attempt_count: row.budget.attempt_count,
    };
    record(told, &word, &fate, &exchange, row.age, &relay.held);
    match (&word, fate) {
        (Word::Published, _) => None,
        (_, fate) => Some(Settlement { event_id: row.event_id.clone(), claim_id: claim.to_owned(), fate }),
    }
}

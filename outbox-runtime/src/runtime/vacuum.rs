//! Shows what holds back the clearing out of dead rows, for as long as a relay runs.

use std::time::Duration;

use sqlx::Pool;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::runtime::engine::STATEMENT;
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::{Repeated, names};

const INTERVAL: Duration = Duration::from_secs(5);

/// Measures until the runtime stops. A figure that cannot be had is only a figure.
pub(super) async fn run<DB: Store>(pool: Pool<DB>, stopping: CancellationToken) {
    let mut tick = interval(INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut trouble = Repeated::new();
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = stopping.cancelled() => return,
        }
        let looked = async {
            let mut session = Session::reader(&pool).await?;
            let result = within(STATEMENT, DB::vacuum(session.connection()?)).await;
            session.finish(result)
        };
        match looked.await {
            Ok(Some(vacuum)) => {
                let _ = trouble.clear();
                metrics::gauge!(names::OLDEST_SNAPSHOT_SECONDS).set(vacuum.oldest_snapshot.as_secs_f64());
                metrics::gauge!(names::DEAD_ROWS).set(vacuum.dead_rows as f64);
            }
            Ok(None) => return stopping.cancelled().await,
            Err(error) => {
                if let Some(count) = trouble.note(&error.to_string()) {
                    tracing::debug!(%error, failures = count, "what holds back vacuum could not be found out");
                }
            }
        }
    }
}

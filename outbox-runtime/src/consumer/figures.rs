//! How many messages are parked, for the gauges.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::consumer::Shared;
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::names;

const INTERVAL: Duration = Duration::from_secs(5);

/// Measures at intervals. Runs on the service's own runtime; a failure shows in the other loops' log lines.
pub(crate) async fn run<DB: Store>(shared: Arc<Shared<DB>>) {
    let mut tick = interval(INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = shared.stopping.cancelled() => return,
        }
        let stats = async {
            let mut session = Session::reader(&shared.pool).await?;
            let result = within(shared.statement, DB::parked_stats(session.connection()?)).await;
            session.finish(result)
        };
        if let Ok(stats) = stats.await {
            metrics::gauge!(names::RETRYING_NOW).set(stats.retrying as f64);
            metrics::gauge!(names::DEAD_NOW).set(stats.dead as f64);
        }
    }
}

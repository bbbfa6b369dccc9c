//! The order in which everything stops, within the shutdown timeout.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::alert::Alert;
use crate::runtime::engine::{Engine as _, Running};
use crate::store::{Ownership, Store};

/// How much of the shutdown timeout is kept for closing, at most.
const AFTER_THE_LAST: Duration = Duration::from_secs(4);

impl<DB: Store> Running<DB> {
    /// Stops everything when the file of the database is taken away: a service that went on would lose all that it is told from then on.
    pub(super) async fn guard(self: Arc<Self>, ownership: Ownership) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                () = self.ending.cancelled() => return,
            }
            if let Some(why) = ownership.lost() {
                tracing::error!(%why, "stopping");
                self.board.alerts().raise(|| Alert::DatabaseUnusable {
                    problem: why.clone(),
                    cure: "restore the file if you still have it, and start the service again".to_owned(),
                });
                self.board.down("database", why);
                break;
            }
        }
        drop(ownership);
        // On its own: the end of everything waits for this task.
        tokio::spawn(async move { self.shut_down().await });
    }

    pub(super) async fn shut_down(&self) {
        self.stopping.cancel();
        self.loops.close();
        self.tasks.close();
        // What has to end after the last batch ends within the timeout too: whoever sends the signal may send a harder one then.
        let deadline = Instant::now() + self.shutdown_timeout;
        let left = |least: Duration| deadline.saturating_duration_since(Instant::now()).max(least);
        let drained = async {
            self.tasks.wait().await;
            self.loops.wait().await;
        };
        let patience = self.shutdown_timeout - (self.shutdown_timeout / 4).min(AFTER_THE_LAST);
        if tokio::time::timeout(patience, drained).await.is_err() {
            tracing::warn!(handlers = self.tasks.len(), "the shutdown timeout passed; dropping what still runs");
            self.abort.cancel();
            let second = Duration::from_secs(1);
            let _ = tokio::time::timeout(left(second).min(2 * second), self.tasks.wait()).await;
            if let Some(relay) = &self.relay {
                let _ = tokio::time::timeout(left(second), relay.release()).await;
            }
        }
        self.ending.cancel();
        self.connections.close();
        let moment = Duration::from_millis(300);
        let _ = tokio::time::timeout(left(moment).min(Duration::from_secs(3)), self.connections.wait()).await;
        let _ = tokio::time::timeout(left(moment).min(Duration::from_secs(2)), self.relay_pool.close()).await;
        if self.own_pool {
            let _ = tokio::time::timeout(left(moment).min(Duration::from_secs(2)), self.pool.close()).await;
        }
        self.abandon();
        drop(self.ownership.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.ended.cancel();
        tracing::info!("outbox stopped");
    }
}

//! Whether a scanning stage reaches the database: in `health()`, in the log once, and as a pause that grows.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::relay::Relay;
use crate::store::Store;
use crate::telemetry::{Repeated, names};

pub(super) struct Reach {
    backoff: Backoff,
    trouble: Repeated,
}

impl Reach {
    pub(super) fn new() -> Self {
        Self { backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(5)), trouble: Repeated::new() }
    }

    /// A scan worked.
    pub(super) fn there<DB: Store>(&mut self, relay: &Relay<DB>) {
        if let Some(failures) = self.trouble.clear() {
            tracing::info!(failures, "the relay reaches the database again");
        }
        relay.board.up("relay database");
        metrics::gauge!(names::DATABASE_AVAILABLE, "role" => "relay").set(1.0);
        self.backoff.reset();
    }

    /// A scan failed: waits; `false` if the relay has to stop.
    pub(super) async fn lost<DB: Store>(&mut self, relay: &Relay<DB>, error: &sqlx::Error) -> bool {
        relay.board.down("relay database", error.to_string());
        metrics::gauge!(names::DATABASE_AVAILABLE, "role" => "relay").set(0.0);
        if let Some(count) = self.trouble.note(&error.to_string()) {
            tracing::warn!(%error, failures = count, "the relay cannot claim; trying again for ever");
        }
        tokio::select! {
            () = tokio::time::sleep(self.backoff.next()) => true,
            () = relay.stop.cancelled() => false,
        }
    }
}

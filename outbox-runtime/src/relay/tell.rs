//! Tells consumers in other processes that messages were put into queues of the database: without it they find them by polling (decision 0009).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::outbox::wake;
use crate::relay::Relay;
use crate::store::Store;
use crate::store::session::{Session, within};

/// At most so often: each time every consumer of every process looks into its queue.
const AT_MOST_EVERY: Duration = Duration::from_millis(200);

/// What there is to tell.
#[derive(Debug)]
pub(crate) struct Teller(watch::Sender<u64>);

impl Default for Teller {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Teller {
    /// This relay put messages into queues: consumers of this process know at once, the others are told. What was heard of other relays is not
    /// told again.
    pub(super) fn routed(&self) {
        wake::ROUTED.signal();
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Tells the others. A hint that cannot be told is left out.
pub(super) async fn run<DB: Store>(relay: Arc<Relay<DB>>) {
    let mut routed = relay.teller.0.subscribe();
    loop {
        tokio::select! {
            changed = routed.changed() => if changed.is_err() { return },
            () = relay.stop.cancelled() => return,
        }
        if let Err(error) = say(&relay).await {
            tracing::debug!(%error, "consumers of other processes could not be told; they find their messages by polling");
        }
        tokio::select! {
            () = tokio::time::sleep(AT_MOST_EVERY) => {}
            () = relay.stop.cancelled() => return,
        }
    }
}

async fn say<DB: Store>(relay: &Relay<DB>) -> Result<(), sqlx::Error> {
    let mut session = Session::writer(&relay.pool).await?;
    let result = within(Duration::from_secs(2), DB::say_routed(session.connection()?, relay.ear.name())).await;
    session.finish(result)
}

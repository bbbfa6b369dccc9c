//! Whether nothing is left to do.

use std::sync::{Arc, PoisonError};

use crate::runtime::engine::{Running, STATEMENT};
use crate::store::Store;
use crate::store::session::{Session, within};

impl<DB: Store> Running<DB> {
    pub(super) async fn is_quiet(&self) -> bool {
        let database = async {
            let mut session = Session::reader(&self.pool).await?;
            let looked = async {
                let connection = session.connection()?;
                let outbox = DB::outbox_stats(&mut *connection).await?;
                let parked = DB::parked_stats(&mut *connection).await?;
                Ok::<_, sqlx::Error>(outbox.pending == 0 && outbox.processing == 0 && parked.retrying == 0)
            };
            let result = looked.await;
            session.finish(result)
        };
        if !within(STATEMENT, database).await.unwrap_or(false) {
            return false;
        }
        if self.relay.as_ref().is_some_and(|relay| relay.window.in_flight() > 0) || !self.tasks.is_empty() {
            return false;
        }
        if let (Some(source), Some(engine)) = (&self.source, self.engine()) {
            for consumer in &self.consumers {
                let (consumer, source) = (Arc::clone(consumer), source.clone());
                let waiting = engine.spawn(async move { consumer.waiting(&source).await });
                if waiting.await.ok().flatten() != Some(0) {
                    return false;
                }
            }
        }
        let draining = self.draining.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for consumer in draining {
            if consumer.waiting_in_database().await != Some(0) {
                return false;
            }
        }
        true
    }
}

//! A lost or read-only database pauses the consumer: deliveries are held, nothing is spent (C4).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::Pool;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::runtime::health::Board;
use crate::store::session::{Session, within};
use crate::store::{Store, Writable};
use crate::telemetry::{Repeated, names};

const PROBE: Duration = Duration::from_secs(5);
const PART: &str = "consumer database";

/// Whether runs may begin.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Since when the database is out of reach; `None` while it works.
    closed: watch::Sender<Option<Instant>>,
    board: Arc<Board>,
    trouble: Mutex<Repeated>,
}

impl Gate {
    pub(crate) fn new(board: Arc<Board>) -> Arc<Self> {
        Arc::new(Self { closed: watch::Sender::new(None), board, trouble: Mutex::default() })
    }

    /// The state, now and later.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Instant>> {
        self.closed.subscribe()
    }

    /// Waits until the database works.
    ///
    /// # Cancel safety
    /// It can be dropped at any time.
    pub(crate) async fn open(&self) {
        let _ = self.watch().wait_for(Option::is_none).await;
    }

    /// Closes the gate until the prober opens it.
    pub(crate) fn close(&self, error: &str) {
        self.board.down(PART, error);
        metrics::gauge!(names::DATABASE_AVAILABLE, "role" => "consumer").set(0.0);
        let closed = self.closed.send_if_modified(|state| {
            let first = state.is_none();
            state.get_or_insert_with(Instant::now);
            first
        });
        let count = closed.then(|| self.trouble.lock().unwrap_or_else(PoisonError::into_inner).note(error)).flatten();
        if let Some(count) = count {
            tracing::warn!(%error, failures = count, "the database is lost or read-only; consumers pause and nothing is spent");
        }
    }

    /// Whether the database answers and takes writes, asked now.
    pub(crate) async fn check<DB: Store>(pool: &Pool<DB>) -> Result<(), String> {
        // Others may have the turn for as long as their handlers run: that is no loss of the database.
        let turn = DB::turn(pool).await;
        let probe = async {
            let mut session = Session::with_turn(pool, turn).await?;
            let result = DB::probe(session.connection()?).await;
            // A session keeps the `default_transaction_read_only` that it began with: the next look needs a new one.
            if !matches!(result, Ok(Writable::ReadOnly)) {
                return session.finish(result);
            }
            result
        };
        match within(PROBE, probe).await {
            Ok(Writable::Yes) => Ok(()),
            Ok(Writable::ReadOnly) => Err("the database is read-only".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Opens the gate when the database is back. Runs on the service's own tokio runtime, where the pool lives.
    pub(crate) async fn probe<DB: Store>(self: Arc<Self>, pool: Pool<DB>, stop: CancellationToken) {
        let mut closed = self.watch();
        self.board.up(PART);
        metrics::gauge!(names::DATABASE_AVAILABLE, "role" => "consumer").set(1.0);
        loop {
            tokio::select! {
                waited = closed.wait_for(Option::is_some) => if waited.is_err() { return },
                () = stop.cancelled() => return,
            }
            let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(3));
            let mut trouble = Repeated::new();
            loop {
                match Self::check(&pool).await {
                    Ok(()) => break,
                    Err(error) => {
                        self.board.down(PART, error.clone());
                        if let Some(count) = trouble.note(&error) {
                            tracing::warn!(%error, failures = count, "the database is still out of reach");
                        }
                    }
                }
                tokio::select! {
                    () = tokio::time::sleep(backoff.next()) => {}
                    () = stop.cancelled() => return,
                }
            }
            tracing::info!("the database is back; consumers go on");
            self.board.up(PART);
            metrics::gauge!(names::DATABASE_AVAILABLE, "role" => "consumer").set(1.0);
            self.closed.send_replace(None);
        }
    }
}

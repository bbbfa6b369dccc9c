//! The relay. To RabbitMQ: three stages joined by bounded queues. Claim (a short statement) -> publish (outside any transaction; each channel
//! owns one batch at a time) -> settle (the outcomes of many batches in one statement, fenced by claim ids). To queues of the database: route,
//! which is all three in one statement.

mod announce;
#[cfg(feature = "rabbitmq")]
mod batch;
#[cfg(feature = "rabbitmq")]
mod claim;
#[cfg(feature = "rabbitmq")]
mod destination;
mod fate;
mod hint;
#[cfg(feature = "rabbitmq")]
mod line;
mod maintain;
#[cfg(feature = "rabbitmq")]
mod proven;
#[cfg(feature = "rabbitmq")]
mod publish;
mod reach;
mod record;
mod route;
mod settle;
mod sleep;
mod tell;
#[cfg(all(test, feature = "rabbitmq", feature = "postgres", feature = "sqlite"))]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;
#[cfg(feature = "rabbitmq")]
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::broker::{Declare, Transport};
#[cfg(feature = "rabbitmq")]
use crate::outbox::Settlement;
use crate::outbox::{ArchiveTable, Ear};
use crate::relay::record::Tell;
use crate::runtime::health::Board;
use crate::runtime::supervise::supervise;
use crate::store::Store;
use crate::store::session::{Session, within};
#[cfg(feature = "rabbitmq")]
use crate::window::Permit;
use crate::window::Window;

/// How a relay works. Every figure is bounded, so that memory does not depend on the backlog.
#[derive(Debug, Clone)]
pub(crate) struct RelayConfig {
    pub(crate) instance: String,
    pub(crate) namespace: Option<String>,
    pub(crate) declare: Declare,
    /// Rows of one claim and of one batch.
    pub(crate) batch: usize,
    /// Rows and bytes between claim and settle.
    pub(crate) window_rows: usize,
    pub(crate) window_bytes: usize,
    /// Channels that publish at the same time.
    pub(crate) channels: usize,
    /// How long a claim holds before somebody else may take it; renewed while its batch lives.
    pub(crate) lease: Duration,
    /// How long a batch waits for its confirms: shorter than the lease.
    pub(crate) confirm: Duration,
    /// The longest pause between two scans.
    pub(crate) poll: Duration,
    /// What becomes of published rows.
    pub(crate) retention: Expiry,
    /// Whether a published row is deleted at once.
    pub(crate) delete_published: bool,
    /// How long one statement may take.
    pub(crate) statement: Duration,
}

/// What becomes of published rows, and when.
#[derive(Debug, Clone)]
pub(crate) struct Expiry {
    /// How long they stay.
    pub(crate) after: Duration,
    /// Where they go then; `None`: nowhere.
    pub(crate) archive: Option<ArchiveTable>,
}

/// Rows of one claim that are published on one channel.
#[cfg(feature = "rabbitmq")]
#[derive(Debug)]
pub(crate) struct Batch {
    part: batch::Part,
    pub(crate) claim: Arc<str>,
    pub(crate) claimed_at: tokio::time::Instant,
    pub(crate) permit: Permit,
}

/// The outcomes of one batch, on their way to the table.
#[cfg(feature = "rabbitmq")]
#[derive(Debug)]
pub(crate) struct Outcomes {
    pub(crate) settlements: Vec<Settlement>,
    pub(crate) permit: Permit,
}

/// What the stages share.
pub(crate) struct Relay<DB: Store> {
    pub(crate) config: RelayConfig,
    pub(crate) pool: Pool<DB>,
    pub(crate) transport: Transport,
    pub(crate) board: Arc<Board>,
    pub(crate) window: Arc<Window>,
    #[cfg(feature = "rabbitmq")]
    pub(crate) destinations: destination::Destinations,
    #[cfg(feature = "rabbitmq")]
    pub(crate) proven: proven::Proven,
    /// Who publishes reads it; who looks for the row that closes connections writes it: nobody else may be on the connection then.
    #[cfg(feature = "rabbitmq")]
    pub(crate) alone: tokio::sync::RwLock<()>,
    /// One channel at a time waits for a destination that may not answer.
    #[cfg(feature = "rabbitmq")]
    pub(crate) asking: tokio::sync::Mutex<()>,
    /// Where it tells of events that are held or Failed.
    pub(crate) held: Tell,
    /// Whether the relay sleeps, to be told to those who enqueue.
    pub(crate) announcer: announce::Announcer,
    /// What it tells consumers of other processes, where the database is the broker.
    pub(crate) teller: tell::Teller,
    /// What it is told by other processes.
    pub(crate) ear: Arc<Ear>,
    /// No more claims; what is claimed and not begun goes back.
    pub(crate) stop: CancellationToken,
}

impl<DB: Store> Relay<DB> {
    pub(crate) fn new(
        config: RelayConfig,
        pool: Pool<DB>,
        transport: Transport,
        board: Arc<Board>,
        ear: Arc<Ear>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let window = Window::new(config.window_rows, config.window_bytes);
        Arc::new(Self {
            config,
            pool,
            transport,
            window,
            #[cfg(feature = "rabbitmq")]
            destinations: destination::Destinations::new(board.alerts().clone()),
            #[cfg(feature = "rabbitmq")]
            proven: proven::Proven::default(),
            held: Tell::new(board.alerts().clone()),
            board,
            announcer: announce::Announcer::default(),
            teller: tell::Teller::default(),
            ear,
            #[cfg(feature = "rabbitmq")]
            alone: tokio::sync::RwLock::new(()),
            #[cfg(feature = "rabbitmq")]
            asking: tokio::sync::Mutex::new(()),
            stop,
        })
    }

    /// Starts all stages on the current tokio runtime.
    pub(crate) fn start(self: &Arc<Self>, tasks: &TaskTracker) {
        match &self.transport {
            #[cfg(feature = "rabbitmq")]
            Transport::RabbitMq(link) => self.start_publishing(link, tasks),
            Transport::Database => {
                let relay = Arc::clone(self);
                self.spawn(tasks, "relay route".to_owned(), move || route::run(Arc::clone(&relay)));
                if DB::NOTIFIES {
                    let relay = Arc::clone(self);
                    self.spawn(tasks, "relay tell".to_owned(), move || tell::run(Arc::clone(&relay)));
                }
            }
        }
        if DB::NOTIFIES {
            let relay = Arc::clone(self);
            self.spawn(tasks, "relay announce".to_owned(), move || announce::run(Arc::clone(&relay)));
        }
        let relay = Arc::clone(self);
        self.spawn(tasks, "relay renew".to_owned(), move || maintain::renew(Arc::clone(&relay)));
        let relay = Arc::clone(self);
        self.spawn(tasks, "relay maintain".to_owned(), move || maintain::run(Arc::clone(&relay)));
    }

    #[cfg(feature = "rabbitmq")]
    fn start_publishing(self: &Arc<Self>, link: &Arc<crate::broker::rabbitmq::connection::Link>, tasks: &TaskTracker) {
        // As many batches may wait as channels publish: more would only hold leases.
        let (to_publish, publish) = mpsc::channel::<Batch>(self.config.channels);
        let (to_settle, settle) = mpsc::channel::<Outcomes>(self.config.channels * 4);
        let publish = Arc::new(Mutex::new(publish));
        let settle = Arc::new(Mutex::new(settle));

        let (relay, to) = (Arc::clone(self), Arc::clone(link));
        self.spawn(tasks, "relay claim".to_owned(), move || {
            claim::run(Arc::clone(&relay), Arc::clone(&to), to_publish.clone())
        });
        for channel in 1..=self.config.channels {
            let (relay, to) = (Arc::clone(self), Arc::clone(link));
            let (publish, to_settle) = (Arc::clone(&publish), to_settle.clone());
            self.spawn(tasks, format!("relay publish {channel}"), move || {
                publish::run(Arc::clone(&relay), Arc::clone(&to), Arc::clone(&publish), to_settle.clone())
            });
        }
        drop(to_settle);
        let relay = Arc::clone(self);
        self.spawn(tasks, "relay settle".to_owned(), move || settle::run(Arc::clone(&relay), Arc::clone(&settle)));
    }

    fn spawn<F, Fut>(&self, tasks: &TaskTracker, name: String, make: F)
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        tasks.spawn(supervise(name, Arc::clone(&self.board), self.stop.clone(), make));
    }

    /// After the deadline of a shutdown: gives back what is still claimed.
    pub(crate) async fn release(&self) {
        let claims = self.window.claims();
        if claims.is_empty() {
            return;
        }
        let released = async {
            let mut session = Session::writer(&self.pool).await?;
            let result = DB::release(session.connection()?, &claims).await;
            session.finish(result)
        };
        match within(Duration::from_secs(2), released).await {
            Ok(count) => metrics::counter!(crate::telemetry::names::PUT_BACK).increment(count),
            Err(error) => tracing::warn!(%error, "claims could not be put back; their leases will run out"),
        }
    }
}

//! A runtime that runs.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::runtime::engine::Engine;
use crate::runtime::{Health, RuntimeBuilder, signals};

/// Relays and consumers at work. Several of them in one process do not disturb each other.
///
/// Dropped without [`shutdown`](Self::shutdown), it stops at once: handlers are dropped, leases run out.
///
/// ```no_run
/// # extern crate outbox_runtime as outbox;
/// # async fn app() -> outbox::Result<()> {
/// use outbox::{Broker, Runtime};
///
/// let runtime = Runtime::builder()
///     .database_url("postgres://localhost/shop")
///     .broker(Broker::RabbitMq("amqp://localhost:5672/%2f".into()))
///     .signals(false)
///     .start()
///     .await?;
/// // .. serve requests until the service wants to stop ..
/// runtime.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "dropped, it stops"]
pub struct Runtime {
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    engine: Arc<dyn Engine>,
    #[cfg(not(any(feature = "postgres", feature = "sqlite")))]
    nothing: Arc<()>,
    signals: bool,
}

impl Runtime {
    /// A builder without settings.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) async fn start(builder: RuntimeBuilder) -> Result<Self> {
        let signals = builder.signals;
        Ok(Self { engine: crate::runtime::bootstrap::start(builder).await?, signals })
    }

    #[cfg(not(any(feature = "postgres", feature = "sqlite")))]
    #[allow(clippy::unused_async, reason = "the same signature in every build")]
    pub(super) async fn start(builder: RuntimeBuilder) -> Result<Self> {
        let mut problems = crate::runtime::check::problems(&builder);
        if let Some(crate::runtime::Database::Url(url)) = &builder.database {
            problems.extend(
                crate::runtime::database::kind_of_url("DATABASE_URL", url, crate::runtime::database::Compiled::HERE)
                    .err(),
            );
        }
        if builder.role.consumes() {
            let registry = match builder.registry {
                Some(handlers) => crate::registry::Registry::explicit(handlers),
                None => crate::registry::Registry::linked(),
            };
            problems.extend(registry.nothing());
        }
        problems.push(crate::StartProblem::new(
            "features `postgres`, `sqlite`",
            "this build has neither, so there is nothing to run on",
            "switch one on: cargo add outbox -F postgres, or cargo add outbox -F sqlite",
        ));
        Err(crate::StartError::new(problems).into())
    }

    /// Runs until SIGTERM or SIGINT (unless `signals(false)`) or until somebody calls [`shutdown`](Self::shutdown), then shuts down in order. A second
    /// signal ends the process at once, with exit code 130.
    ///
    /// # Errors
    /// None at the moment; the result leaves room.
    pub async fn run(self) -> Result<()> {
        if self.signals {
            tokio::select! {
                signal = signals::stop() => tracing::info!(signal, "stopping"),
                () = self.stopping() => {}
            }
            tokio::select! {
                () = self.shutdown() => {}
                _ = signals::stop() => std::process::exit(130),
            }
        } else {
            self.stopping().await;
            self.shutdown().await;
        }
        Ok(())
    }

    /// Completes when the runtime begins to stop.
    ///
    /// # Cancel safety
    /// It can be dropped at any time.
    pub async fn stopping(&self) {
        #[cfg(any(feature = "postgres", feature = "sqlite"))]
        self.engine.stopping().await;
    }

    /// Stops claiming and consuming, lets handlers and batches finish within the shutdown timeout while their leases are renewed, puts the rest back
    /// without spending an attempt, and closes. Calling it again waits for the same end.
    ///
    /// # Cancel safety
    /// Dropped half-way, the shutdown goes on; the rest of it happens when it is called again or the runtime is dropped.
    pub async fn shutdown(&self) {
        #[cfg(any(feature = "postgres", feature = "sqlite"))]
        self.engine.shutdown().await;
    }

    /// Waits until nothing is pending in the outbox, in flight, in this runtime's queues, or parked for another run. Delayed events are pending:
    /// it waits for their time.
    ///
    /// # Cancel safety
    /// It can be dropped at any time.
    pub async fn idle(&self) {
        #[cfg(any(feature = "postgres", feature = "sqlite"))]
        {
            // A message may be on its way between two places that are looked at one after the other.
            let mut quiet = 0;
            while quiet < 3 {
                quiet = if self.engine.quiet().await { quiet + 1 } else { 0 };
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }

    /// What is up, and what is down and why.
    pub fn health(&self) -> Health {
        #[cfg(any(feature = "postgres", feature = "sqlite"))]
        return self.engine.health();
        #[cfg(not(any(feature = "postgres", feature = "sqlite")))]
        {
            let _ = &self.nothing;
            crate::runtime::health::Board::default().health()
        }
    }
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl Drop for Runtime {
    fn drop(&mut self) {
        self.engine.abandon();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("health", &self.health().to_string()).finish_non_exhaustive()
    }
}

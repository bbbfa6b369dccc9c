//! What a run needs outside of itself: two databases, a namespace at the broker, a folder for logs. Gone when the run is over.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use ulid::Ulid;

use crate::broker::Broker;
use crate::database::{Database, Server};
use crate::progress::say;

/// How long the removal may take: a broken server must not keep the demo from ending.
const CLOSE: Duration = Duration::from_secs(30);

/// The surroundings of one run.
pub(crate) struct World {
    server: Server,
    /// The order service's.
    pub(crate) orders: Database,
    /// The inventory service's.
    pub(crate) inventory: Database,
    pub(crate) broker: Broker,
    /// Where the services log.
    pub(crate) logs: PathBuf,
}

impl World {
    /// Finds the servers, and makes names that no other run has.
    pub(crate) async fn new() -> anyhow::Result<Self> {
        let id = Ulid::new().to_string().to_lowercase();
        let server = Server::find().await?;
        let broker = Broker::find(format!("outbox-demo-{id}")).await?;
        let logs = std::env::temp_dir().join(format!("outbox-demo-{id}"));
        std::fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
        let orders = server.create(&format!("outbox_demo_orders_{id}")).await?;
        let inventory = match server.create(&format!("outbox_demo_inventory_{id}")).await {
            Ok(inventory) => inventory,
            Err(error) => {
                let _ = server.drop(&orders).await;
                return Err(error);
            }
        };
        say(format_args!("databases {} and {}, namespace {}", orders.name, inventory.name, broker.namespace));
        Ok(Self { server, orders, inventory, broker, logs })
    }

    /// Removes everything, unless the run failed and somebody wants to see why.
    pub(crate) async fn close(self, fine: bool, keep: bool) {
        if !fine {
            self.show_logs();
        }
        if !fine && keep {
            say(format_args!(
                "kept: the databases {} and {}, the queues {}.*, the logs in {}",
                self.orders.name,
                self.inventory.name,
                self.broker.namespace,
                self.logs.display()
            ));
            return;
        }
        let close = async {
            let (queues, orders, inventory) =
                tokio::join!(self.broker.clear(), self.server.drop(&self.orders), self.server.drop(&self.inventory));
            for (what, done) in [("queues", queues), ("database of orders", orders), ("database of stock", inventory)] {
                if let Err(error) = done {
                    say(format_args!("the {what} could not be removed: {error:#}"));
                }
            }
        };
        if tokio::time::timeout(CLOSE, close).await.is_err() {
            say("databases or queues could not be removed: the servers do not answer");
        }
        let _ = std::fs::remove_dir_all(&self.logs);
    }

    /// The end of each log, since the rest goes away.
    fn show_logs(&self) {
        for log in std::fs::read_dir(&self.logs).into_iter().flatten().flatten() {
            say(format_args!("the end of {}:\n{}", log.file_name().display(), tail(&log.path())));
        }
    }
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

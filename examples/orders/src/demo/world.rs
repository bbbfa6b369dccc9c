//! What a run needs outside of itself: one database or two, a namespace at the broker, a folder for logs. Gone when the run is over.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use ulid::Ulid;

use crate::broker::{Broker, Kind, Queues, RabbitMq};
use crate::database::{Database, Server};
use crate::progress::say;

/// How long the removal may take: a broken server must not keep the demo from ending.
const CLOSE: Duration = Duration::from_secs(30);

/// The surroundings of one run.
pub(crate) struct World {
    server: Server,
    /// The one of the order service.
    pub(crate) orders: Database,
    /// The one of the inventory service: the same one, if it is the broker, too.
    pub(crate) inventory: Database,
    pub(crate) broker: Broker,
    /// Where the services log.
    pub(crate) logs: PathBuf,
}

impl World {
    /// Finds the servers, and makes names that no other run has.
    pub(crate) async fn new(broker: Kind) -> anyhow::Result<Self> {
        let id = Ulid::new().to_string().to_lowercase();
        let server = Server::find().await?;
        let rabbitmq = match broker {
            Kind::RabbitMq => Some(RabbitMq::find(format!("outbox-demo-{id}")).await?),
            Kind::Database => None,
        };
        let logs = std::env::temp_dir().join(format!("outbox-demo-{id}"));
        std::fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
        let Some(rabbitmq) = rabbitmq else {
            let shared = server.create(&format!("outbox_demo_shared_{id}")).await?;
            say(format_args!("database {}, shared by both services; no other broker", shared.name));
            let broker = Broker::Database(Queues { database: shared.clone() });
            return Ok(Self { server, orders: shared.clone(), inventory: shared, broker, logs });
        };
        let orders = server.create(&format!("outbox_demo_orders_{id}")).await?;
        let inventory = match server.create(&format!("outbox_demo_inventory_{id}")).await {
            Ok(inventory) => inventory,
            Err(error) => {
                let _ = server.drop(&orders).await;
                return Err(error);
            }
        };
        say(format_args!("databases {} and {}, namespace {}", orders.name, inventory.name, rabbitmq.namespace));
        Ok(Self { server, orders, inventory, broker: Broker::RabbitMq(rabbitmq), logs })
    }

    /// Removes everything, unless the run failed and somebody wants to see why.
    pub(crate) async fn close(self, fine: bool, keep: bool) {
        if !fine {
            self.show_logs();
        }
        if !fine && keep {
            let names: Vec<&str> = self.databases().map(|database| database.name.as_str()).collect();
            let queues = match &self.broker {
                Broker::RabbitMq(server) => format!(", the queues {}.*", server.namespace),
                Broker::Database(_) => String::new(),
            };
            say(format_args!(
                "kept: the databases {}{queues}, the logs in {}",
                names.join(" and "),
                self.logs.display()
            ));
            return;
        }
        let drop = async {
            for database in self.databases() {
                if let Err(error) = self.server.drop(database).await {
                    say(format_args!("the database {} could not be removed: {error:#}", database.name));
                }
            }
        };
        let clear = async {
            if let Err(error) = self.broker.clear().await {
                say(format_args!("the queues could not be removed: {error:#}"));
            }
        };
        let close = async { tokio::join!(clear, drop) };
        if tokio::time::timeout(CLOSE, close).await.is_err() {
            say("databases or queues could not be removed: the servers do not answer");
        }
        let _ = std::fs::remove_dir_all(&self.logs);
    }

    /// One, or two.
    fn databases(&self) -> impl Iterator<Item = &Database> {
        [&self.orders, &self.inventory].into_iter().take(match self.broker {
            Broker::RabbitMq(_) => 2,
            Broker::Database(_) => 1,
        })
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

//! How far the work is: what is on its way, and when nothing is.

use std::collections::HashSet;
use std::fmt;
use std::time::{Duration, Instant};

use crate::database::Database;
use crate::world::World;

/// Work that a service has begun or not seen yet, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// Events of orders that no broker is known to have: the order service's work.
    pub(crate) unpublished: usize,
    /// Events that the broker has confirmed and whose order has no reservation: the inventory service's work.
    pub(crate) unreserved: usize,
    /// Messages that the inventory service has taken and not finished, if the broker tells.
    pub(crate) claimed: Option<i64>,
}

impl InFlight {
    /// Looks into the databases.
    pub(crate) async fn now(world: &World) -> anyhow::Result<Self> {
        // The events first: the other service may go on in between, and must not make the work look bigger than it was.
        let events = "SELECT aggregate_id, (status = 'Published')::int::bigint FROM outbox_messages
                      WHERE event_type = 'order.created'";
        let events = world.orders.pairs(events).await?;
        let reservations = world.inventory.pairs("SELECT order_id, reservation_id FROM inventory.reservations").await?;
        let reserved: HashSet<String> = reservations.into_iter().map(|(order, _)| order).collect();
        let (published, unpublished): (Vec<_>, Vec<_>) = events.into_iter().partition(|(_, published)| *published == 1);
        let unreserved = published.iter().filter(|(order, _)| !reserved.contains(order)).count();
        Ok(Self { unpublished: unpublished.len(), unreserved, claimed: world.broker.inventory_claimed().await? })
    }
}

impl fmt::Display for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} events not published, {} published ones not handled", self.unpublished, self.unreserved)?;
        match self.claimed {
            Some(claimed) => write!(f, ", {claimed} messages claimed"),
            None => Ok(()),
        }
    }
}

/// Waits until the server has finished the statements that a frozen service had sent: what is in the tables then is what a kill leaves behind.
pub(crate) async fn statements_end(database: &Database) -> anyhow::Result<()> {
    // Transactions rather than statements: a statement begins several times in its life, once for each message of the protocol.
    let active = "SELECT pid || ' ' || xact_start, pid::bigint FROM pg_stat_activity
                  WHERE datname = current_database() AND state = 'active' AND xact_start IS NOT NULL
                  AND backend_type = 'client backend' AND application_name <> 'orders-demo'";
    let start = Instant::now();
    let begun: HashSet<_> = database.pairs(active).await?.into_iter().collect();
    // What began later is another service's, which shares the database. One that waits for a lock of a frozen transaction does not end.
    while start.elapsed() < Duration::from_millis(200)
        && database.pairs(active).await?.iter().any(|transaction| begun.contains(transaction))
    {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Waits until every order has come back as reserved and nothing is on its way; what is still missing when the time is over.
pub(crate) async fn quiet(world: &World, orders: usize, within: Duration) -> anyhow::Result<Option<String>> {
    let start = Instant::now();
    let mut calm = 0;
    loop {
        let missing = missing(world, orders).await?;
        // A message may move from one place to another between two looks.
        calm = if missing.is_empty() { calm + 1 } else { 0 };
        if calm == 3 {
            return Ok(None);
        }
        if start.elapsed() > within {
            return Ok(Some(format!("after {within:?} there were still {}", missing.join(", "))));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn missing(world: &World, orders: usize) -> anyhow::Result<Vec<String>> {
    // By type and by consumer: the two services may share these tables.
    let unpublished_orders =
        "SELECT count(*) FROM outbox_messages WHERE event_type = 'order.created' AND status <> 'Published'";
    let unpublished_stock =
        "SELECT count(*) FROM outbox_messages WHERE event_type = 'stock.reserved' AND status <> 'Published'";
    let retrying_orders = "SELECT count(*) FROM parked_messages WHERE consumer = 'orders' AND status = 'Retrying'";
    let retrying_stock = "SELECT count(*) FROM parked_messages WHERE consumer = 'inventory' AND status = 'Retrying'";
    let confirmed = world.orders.number("SELECT count(*) FROM orders.orders WHERE status = 'Reserved'").await?;
    let counts = [
        ("orders without confirmation", i64::try_from(orders)? - confirmed),
        ("unpublished events of orders", world.orders.number(unpublished_orders).await?),
        ("unpublished events of stock", world.inventory.number(unpublished_stock).await?),
        ("parked messages of orders", world.orders.number(retrying_orders).await?),
        ("parked messages of stock", world.inventory.number(retrying_stock).await?),
        ("messages in queues", world.broker.waiting().await?),
    ];
    Ok(counts.into_iter().filter(|(_, count)| *count != 0).map(|(what, count)| format!("{count} {what}")).collect())
}

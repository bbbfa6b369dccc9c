//! The story of one run.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use reqwest::Client;
use tokio::sync::watch;

use crate::doubles::Doubles;
use crate::progress::say;
use crate::service::Service;
use crate::siblings::Binaries;
use crate::verdict::Verdict;
use crate::world::World;
use crate::{chain, kill, post};

/// How long a service may take until it works.
const START: Duration = Duration::from_secs(60);
/// How long a service may take to stop in order.
const STOP: Duration = Duration::from_secs(30);

/// Posts that many orders, makes trouble, waits for the end, and compares.
pub(crate) async fn run(orders: usize, world: &World, binaries: &Binaries) -> anyhow::Result<Verdict> {
    // Generous: it is there so that a run ends by itself, not to measure anything.
    let patience = Duration::from_secs(90) + Duration::from_millis(50) * u32::try_from(orders)?;
    let mut services = Services::new(world, binaries)?;
    tokio::try_join!(services.order.start(), services.inventory.start())?;
    say("both services are up");

    let doubles = Doubles::listen(&world.broker).await?;
    let (accepted, _) = watch::channel(0);
    say(format_args!("posting {orders} orders"));
    let address = services.order.address.subscribe();
    let work = async {
        tokio::try_join!(
            post::all(orders, &address, &accepted),
            doubles.early(orders),
            services.killed(world, accepted.subscribe(), orders),
        )
    };
    let (trouble, late, ()) = tokio::time::timeout(patience, work)
        .await
        .with_context(|| format!("orders, second copies or restarts were not through within {patience:?}"))??;
    say(format_args!(
        "all orders are placed; {} requests got no answer and were repeated, {} of them had placed their order before",
        trouble.unanswered, trouble.placed_before
    ));

    let mut unrest = chain::quiet(world, orders, patience).await?;
    if unrest.is_none() {
        let early = late.early;
        let last = late.publish().await?;
        ensure!(early + last == orders.div_ceil(10), "{early} + {last} second copies of {orders} orders");
        say(format_args!("published {early} events a second time at once, and {last} now that all is quiet"));
        unrest = chain::quiet(world, orders, patience).await?;
    }
    services.check()?;
    services.order.check_answer(orders).await?;

    say("stopping both services (SIGTERM)");
    tokio::try_join!(services.order.service.stop(STOP), services.inventory.service.stop(STOP))?;
    // Now nobody holds a delivery: what a consumer had not finished is back in its queue, and counts.
    let waiting = world.broker.waiting().await?;
    if waiting > 0 && unrest.is_none() {
        unrest = Some(format!("{waiting} messages came back into the queues when the services stopped"));
    }
    Verdict::read(world, orders, unrest).await
}

struct Services<'a> {
    order: OrderService,
    inventory: InventoryService<'a>,
}

impl<'a> Services<'a> {
    fn new(world: &'a World, binaries: &Binaries) -> anyhow::Result<Self> {
        let environment = |database: &str| {
            let mut environment = world.broker.environment();
            environment.push(("DATABASE_URL", database.to_owned()));
            environment
        };
        let order = Service::new("order-service", &binaries.orders, &world.logs, environment(&world.orders.url));
        let inventory =
            Service::new("inventory-service", &binaries.inventory, &world.logs, environment(&world.inventory.url));
        Ok(Self {
            order: OrderService {
                service: order,
                address: watch::channel(String::new()).0,
                // Servers named by the environment's proxy settings cannot reach this machine.
                client: Client::builder().no_proxy().build()?,
            },
            inventory: InventoryService { service: inventory, world },
        })
    }

    /// Kills each service once and starts it again: the order service after a quarter of the orders, the inventory service after half of them.
    async fn killed(
        &mut self,
        world: &World,
        mut accepted: watch::Receiver<usize>,
        orders: usize,
    ) -> anyhow::Result<()> {
        accepted.wait_for(|accepted| *accepted >= orders / 4).await?;
        let beside = Some(&mut self.inventory.service);
        kill::while_busy(&mut self.order.service, beside, &world.orders, world, |work| work.unpublished > 0).await?;
        self.order.start().await?;
        say("the order-service is up again");
        accepted.wait_for(|accepted| *accepted >= orders / 2).await?;
        kill::while_busy(&mut self.inventory.service, None, &world.inventory, world, |work| {
            work.unreserved > 0 && work.claimed != Some(0)
        })
        .await?;
        self.inventory.start().await?;
        say("the inventory-service is up again");
        Ok(())
    }

    /// Fails when one of them ended by itself.
    fn check(&mut self) -> anyhow::Result<()> {
        self.order.service.check()?;
        self.inventory.service.check()
    }
}

struct OrderService {
    service: Service,
    /// Where it is at the moment: a new port at each start, since somebody may have taken the old one.
    address: watch::Sender<String>,
    client: Client,
}

impl OrderService {
    async fn start(&mut self) -> anyhow::Result<()> {
        let listen = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).context("a free port")?;
        self.service.start(Some(("LISTEN", listen.to_string())))?;
        let address = format!("http://{listen}");
        self.address.send_replace(address.clone());
        let client = self.client.clone();
        ready(&mut self.service, async || Ok(post::is_ready(&client, &address).await)).await
    }

    /// What the databases say, a customer must see, too.
    async fn check_answer(&self, orders: usize) -> anyhow::Result<()> {
        let address = self.address.borrow().clone();
        let order = post::get(&self.client, &address, orders - 1).await?;
        say(format_args!("GET /orders/{} answers {order}", post::order_id(orders - 1)));
        Ok(())
    }
}

struct InventoryService<'a> {
    service: Service,
    world: &'a World,
}

impl InventoryService<'_> {
    async fn start(&mut self) -> anyhow::Result<()> {
        self.service.start(None)?;
        ready(&mut self.service, async || self.world.broker.inventory_consumes().await).await
    }
}

/// Waits until the service works; fails at once when it ends.
async fn ready(service: &mut Service, is_ready: impl AsyncFn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let start = Instant::now();
    while !is_ready().await? {
        service.check()?;
        ensure!(start.elapsed() < START, "the {} was not ready within {START:?}", service.name);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

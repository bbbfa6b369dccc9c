//! A service whose only handler sleeps for a minute, for tests of signals. Configured by the environment as any service.
#![allow(clippy::print_stdout)]

use std::time::Duration;

#[outbox::event(name = "order.created", exchange = "orders.events", key = order_id)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct OrderCreated {
    order_id: String,
}

#[outbox::handler(consumer = "sleeper", timeout = "2m")]
async fn sleep(_order: OrderCreated) -> anyhow::Result<()> {
    println!("asleep");
    tokio::time::sleep(Duration::from_secs(60)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> outbox::Result<()> {
    outbox::runtime::run().await
}

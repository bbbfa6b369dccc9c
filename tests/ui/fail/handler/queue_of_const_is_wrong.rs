#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

const QUEUE: &str = "";

#[outbox::handler(consumer = "inventory", queue = QUEUE)]
async fn reserve(_order: OrderCreated) -> outbox::Result<()> {
    Ok(())
}

fn main() {}

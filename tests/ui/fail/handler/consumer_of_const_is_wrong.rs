#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

const CONSUMER: &str = "the inventory";

#[outbox::handler(consumer = CONSUMER)]
async fn reserve(_order: OrderCreated) -> outbox::Result<()> {
    Ok(())
}

fn main() {}

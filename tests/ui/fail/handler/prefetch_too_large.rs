#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(consumer = "inventory", prefetch = 65536)]
async fn reserve(_order: OrderCreated) -> outbox::Result<()> {
    Ok(())
}

fn main() {}

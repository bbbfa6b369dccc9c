#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(consumer = "inventory", retry(delays = "1s"))]
async fn reserve(_order: OrderCreated) -> outbox::Result<()> {
    Ok(())
}

fn main() {}

#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(consumer = "inventory", retry(imediate = 2))]
async fn reserve(_order: OrderCreated) -> outbox::Result<()> {
    Ok(())
}

fn main() {}

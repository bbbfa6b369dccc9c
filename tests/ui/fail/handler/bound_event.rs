#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(consumer = "inventory")]
async fn reserve(_order: String) -> outbox::Result<()> {
    Ok(())
}

fn main() {}

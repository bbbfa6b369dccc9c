#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(consumer = "inventory")]
async fn reserve() -> outbox::Result<()> {
    Ok(())
}

fn main() {}

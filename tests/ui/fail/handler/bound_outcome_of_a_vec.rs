#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(consumer = "inventory")]
async fn reserve(_order: OrderCreated) -> outbox::Result<Vec<u32>> {
    Ok(vec![])
}

fn main() {}

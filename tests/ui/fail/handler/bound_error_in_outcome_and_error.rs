#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

pub struct NoError;

#[outbox::handler(consumer = "inventory")]
async fn reserve(_order: OrderCreated) -> Result<u8, NoError> {
    Ok(1)
}

fn main() {}

#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

pub struct NoError;

#[outbox::handler(consumer = "inventory")]
async fn reserve(_order: OrderCreated) -> Result<(), NoError> {
    Ok(())
}

fn main() {}

#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(consumer = "inventory")]
async fn reserve(_order: OrderCreated, _a: &mut outbox::Emit, _b: &mut outbox::Emit) -> outbox::Result<()> {
    Ok(())
}

fn main() {}

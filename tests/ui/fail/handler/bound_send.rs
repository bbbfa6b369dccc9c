#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(consumer = "inventory")]
async fn reserve(order: OrderCreated) -> outbox::Result<()> {
    let cell = std::rc::Rc::new(order);
    std::future::ready(()).await;
    drop(cell);
    Ok(())
}

fn main() {}

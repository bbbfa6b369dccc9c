#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

mod orders {
    #[outbox::handler(consumer = "the inventory")]
    pub async fn reserve(_order: crate::OrderCreated) -> outbox::Result<()> {
        Ok(())
    }
}

pub fn list() -> [&'static outbox::HandlerDescriptor; 1] {
    outbox::handlers![orders::reserve]
}

fn main() {}

#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

mod orders {
    #[outbox::handler(consumer = "inventory")]
    pub async fn reserve(_order: crate::OrderCreated) -> outbox::Result<()> {
        Ok(())
    }
}

use orders::reserve;

pub fn list() -> [&'static outbox::HandlerDescriptor; 1] {
    outbox::handlers![reserve]
}

fn main() {}

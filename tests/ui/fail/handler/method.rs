#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

pub struct Stock;

impl Stock {
    #[outbox::handler(consumer = "inventory")]
    pub async fn reserve(&self, _order: OrderCreated) -> outbox::Result<()> {
        Ok(())
    }
}

fn main() {}

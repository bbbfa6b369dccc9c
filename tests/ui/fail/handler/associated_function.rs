#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

pub struct Stock;

impl Stock {
    #[outbox::handler(consumer = "inventory")]
    pub async fn reserve(_order: OrderCreated, _stock: outbox::State<Self>) -> outbox::Result<()> {
        Ok(())
    }
}

fn main() {}

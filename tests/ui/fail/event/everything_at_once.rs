#[outbox::event(name = "order created", version = 0, key = id, tpoic = "x", envelope = "flat")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    #[serde(rename = "eventId")]
    pub order_id: String,
}

#[outbox::handler(consumer = "inventory")]
async fn reserve(order: OrderCreated) -> outbox::Result<()> {
    let _ = order.draft();
    Ok(())
}

fn main() {}

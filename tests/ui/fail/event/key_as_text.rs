#[outbox::event(name = "order.created", key = "order_id")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

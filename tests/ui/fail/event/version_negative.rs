#[outbox::event(name = "order.created", version = -1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

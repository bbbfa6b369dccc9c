#[outbox::event(name = "order.created", version = 4294967296)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

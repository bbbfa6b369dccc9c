#[outbox::event(name = "order.created", key = order_id, on_failed = "skip")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

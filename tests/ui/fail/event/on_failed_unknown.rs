#[outbox::event(name = "order.created", key = order_id, ordered, on_failed = "skipp")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

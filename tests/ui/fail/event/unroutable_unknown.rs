#[outbox::event(name = "order.created", unroutable = "drop")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

#[outbox::event(name = "order.created", exchange = "orders\n")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

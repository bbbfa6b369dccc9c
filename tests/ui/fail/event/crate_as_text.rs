#[outbox::event(name = "order.created", crate = "::outbox")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

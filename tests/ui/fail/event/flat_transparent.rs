#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

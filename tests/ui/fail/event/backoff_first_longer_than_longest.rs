#[outbox::event(name = "order.created", backoff = "60s..1s")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

#[outbox::event(name = "order.created", backoff = "1s..200h")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

#[outbox::event(name = "order.created", ordered, on_failed = "stop", max_attempts = -1, max_age = "2 hours", backoff = "0s..999999h")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

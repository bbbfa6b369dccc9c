#[outbox::event(name = "order.created", key = order_id, envelope = "versioned")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated(pub String);

fn main() {}

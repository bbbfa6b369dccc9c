#[outbox::event(name = "order.created")]
#[outbox::event(name = "order.changed")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

fn main() {}

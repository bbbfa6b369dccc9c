#[outbox::event(name = "order.created", envelope = "flat")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated;

fn main() {}

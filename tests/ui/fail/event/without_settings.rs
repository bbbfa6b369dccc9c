#[outbox::event]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

fn main() {}

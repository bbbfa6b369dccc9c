const NAME: &str = "order created";

#[outbox::event(name = NAME)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

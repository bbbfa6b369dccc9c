#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
#[allow(non_snake_case)]
pub struct OrderCreated {
    pub eventType: String,
}

fn main() {}

const AGGREGATE: &str = "";

#[outbox::event(name = "order.created", aggregate = AGGREGATE)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

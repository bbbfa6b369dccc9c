const EXCHANGE: &str = "amq.topic";

#[outbox::event(name = "order.created", exchange = EXCHANGE)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

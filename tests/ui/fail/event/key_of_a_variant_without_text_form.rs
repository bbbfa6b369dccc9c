#[outbox::event(name = "order.created", key = order_id)]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(tag = "type")]
pub enum OrderCreated {
    Online { order_id: String },
    InShop { order_id: Vec<u8> },
}

fn main() {}

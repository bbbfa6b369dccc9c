#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", content = "eventId")]
pub enum OrderCreated {
    Online { order_id: String },
}

fn main() {}

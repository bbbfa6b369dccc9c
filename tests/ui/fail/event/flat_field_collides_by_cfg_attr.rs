#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
#[cfg_attr(all(), serde(rename_all = "camelCase"))]
pub struct OrderCreated {
    pub event_id: String,
}

fn main() {}

#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderCreated {
    pub event_id: String,
    pub occurred_at: String,
    pub order_id: String,
}

fn main() {}

#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum OrderCreated {
    Online { event_id: String },
}

fn main() {}

#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    #[serde(rename(serialize = "eventVersion"))]
    pub version: u32,
}

fn main() {}

#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(tag = "type")]
pub enum OrderCreated {
    InShop { till: u32 },
    #[serde(untagged)]
    Other(String),
}

fn main() {}

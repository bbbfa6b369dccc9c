#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum OrderCreated {
    Online(String),
    InShop { till: u32 },
}

fn main() {}

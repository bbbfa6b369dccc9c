#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub enum OrderCreated {
    Online,
    InShop { till: u32 },
}

fn main() {}

#[outbox::event(name = "order.created", key = oder_id)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
    pub quantity: i32,
}

fn main() {}

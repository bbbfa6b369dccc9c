#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated<T> {
    pub order_id: T,
}

fn main() {}

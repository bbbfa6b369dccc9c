#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderId(u64);

#[outbox::event(name = "order.created", key = order_id)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: OrderId,
}

fn main() {}

#[outbox::event(name = "order.created")]
pub struct OrderCreated {
    pub order_id: String,
}

fn main() {}

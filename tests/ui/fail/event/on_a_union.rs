#[outbox::event(name = "order.created")]
pub union OrderCreated {
    pub id: u64,
}

fn main() {}

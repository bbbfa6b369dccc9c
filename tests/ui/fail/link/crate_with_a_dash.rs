outbox::link!(order-events, crate::orders);

fn main() {}

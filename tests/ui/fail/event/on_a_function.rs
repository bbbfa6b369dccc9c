#[outbox::event(name = "order.created")]
fn order_created() {}

fn main() {}

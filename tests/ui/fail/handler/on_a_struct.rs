#[outbox::handler(consumer = "inventory")]
pub struct Reserve;

fn main() {}

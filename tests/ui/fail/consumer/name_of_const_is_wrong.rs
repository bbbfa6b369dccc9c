const NAME: &str = "the inventory";

outbox::consumer! { name = NAME }

fn main() {}

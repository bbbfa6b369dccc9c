outbox::consumer! { name = "the inventory" }

fn main() {}

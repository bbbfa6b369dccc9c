outbox::consumer! { consumer = "inventory", prefetch = 8 }

fn main() {}

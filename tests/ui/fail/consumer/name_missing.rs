outbox::consumer! { queue = "inventory.orders" }

fn main() {}

outbox::consumer! { name = "inventory", prefetch = "8", queue = 7, retry = "1s..10m" }

fn main() {}

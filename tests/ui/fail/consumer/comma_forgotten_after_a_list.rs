outbox::consumer! { name = "inventory", retry(immediate = 1) prefetch = 8 }

fn main() {}

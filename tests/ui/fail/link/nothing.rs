outbox::link!();

fn main() {}

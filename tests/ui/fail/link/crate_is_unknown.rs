outbox::link!(orders);

fn main() {}

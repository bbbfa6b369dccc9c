async fn reserve() {}

pub fn list() {
    let _ = outbox::handlers![reserve];
}

fn main() {}

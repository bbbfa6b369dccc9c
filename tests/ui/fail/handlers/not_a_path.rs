pub fn list() {
    let _ = outbox::handlers!["reserve", reserve::<u8>];
}

fn main() {}

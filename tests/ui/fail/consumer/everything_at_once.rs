outbox::consumer! { nam = "inventory", concurrency = 8, prefetch = 4 timeout = "0s", retry(delays = "1m..1s", atempts = 3) }

fn main() {}

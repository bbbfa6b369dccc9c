#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(timeout = "0s", prefetch = 0, retries = 3)]
fn reserve(_order: &OrderCreated, _emit: &mut outbox::Emit, _again: &mut outbox::Emit) {}

pub async fn caller() {
    reserve(&OrderCreated {}, &mut outbox::Emit::new(), &mut outbox::Emit::new());
    let _ = outbox::handlers![reserve];
}

fn main() {}

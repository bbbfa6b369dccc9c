#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

pub fn emit(emit: &mut outbox::Emit) {
    let _ = emit.event(&17);
}

fn main() {}

#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    #[serde(skip)]
    pub cell: std::rc::Rc<u8>,
}

fn main() {}

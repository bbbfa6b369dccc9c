#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(consumer = "inventory")]
async fn reserve(_db: &mut sqlx::PgConnection, _order: OrderCreated) -> outbox::Result<()> {
    Ok(())
}

fn main() {}

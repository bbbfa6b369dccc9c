#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(consumer = "inventory")]
async fn reserve(_order: OrderCreated, _db: sqlx::PgTransaction<'_>) -> outbox::Result<()> {
    Ok(())
}

fn main() {}

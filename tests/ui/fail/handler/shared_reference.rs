#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

#[outbox::handler(consumer = "inventory")]
async fn reserve(_order: OrderCreated, _pool: &outbox::State<Vec<sqlx::PgPool>>) -> outbox::Result<()> {
    Ok(())
}

fn main() {}

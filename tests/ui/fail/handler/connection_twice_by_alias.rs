#[outbox::event(name = "order.created")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {}

type Db = sqlx::PgConnection;

#[outbox::handler(consumer = "inventory")]
async fn reserve(_order: OrderCreated, _a: &mut sqlx::PgConnection, _b: &mut Db) -> outbox::Result<()> {
    Ok(())
}

fn main() {}

#[outbox::event(name = "order.created", exchange = "orders.events", key = order_id)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

pub async fn place(mut tx: sqlx::Transaction<'_, sqlx::Postgres>, order: OrderCreated) -> outbox::Result<()> {
    tx.commit().await?;
    order.enqueue(&mut tx).await?;
    Ok(())
}

fn main() {}

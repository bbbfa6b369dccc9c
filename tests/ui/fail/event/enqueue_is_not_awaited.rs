#![deny(unused_must_use)]

#[outbox::event(name = "order.created", exchange = "orders.events", key = order_id)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
}

pub async fn place(mut tx: sqlx::Transaction<'_, sqlx::Postgres>, order: OrderCreated) -> sqlx::Result<()> {
    order.enqueue(&mut tx);
    tx.commit().await
}

fn main() {}

//! The one thing that this service does.

use outbox::handler;
use sqlx::PgConnection;

use crate::events::{OrderCreated, StockReserved};

/// Reserves stock. The reservation, the record that this event was handled and the event that is returned are one transaction: whatever is killed in
/// between, there are all three of them or none.
///
/// The insert is a plain one. That the same order does not get two reservations is not this function's business.
#[handler(
    consumer = "inventory",
    concurrency = 8,
    prefetch = 32,
    timeout = "10s",
    retry(immediate = 2, delays = "1s..5m", max_attempts = 10)
)]
pub(crate) async fn reserve_stock(order: OrderCreated, db: &mut PgConnection) -> sqlx::Result<StockReserved> {
    let reservation_id: i64 = sqlx::query_scalar(
        "INSERT INTO inventory.reservations (order_id, sku, quantity) VALUES ($1, $2, $3) RETURNING reservation_id",
    )
    .bind(&order.order_id)
    .bind(&order.sku)
    .bind(order.quantity)
    .fetch_one(db)
    .await?;
    Ok(StockReserved { order_id: order.order_id, reservation_id, sku: order.sku, quantity: order.quantity })
}

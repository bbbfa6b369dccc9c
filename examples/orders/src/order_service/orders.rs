//! Orders and their table.

use anyhow::Context as _;
use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, PgPool, Row as _};

use crate::amount::Amount;
use crate::error::ApiError;
use crate::events::OrderCreated;

/// An order.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Order {
    pub(crate) order_id: String,
    pub(crate) customer_id: String,
    pub(crate) amount: Amount,
    pub(crate) currency: String,
    pub(crate) sku: String,
    pub(crate) quantity: i32,
    pub(crate) status: Status,
}

/// How far an order is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Status {
    /// Stock is not reserved yet.
    Pending,
    /// Stock is reserved.
    Reserved,
}

/// What became of an order that was placed.
#[derive(Debug)]
pub(crate) enum Placed {
    /// It is new.
    New(Order),
    /// It was placed before: the client asks again since it did not get the answer.
    Before(Order),
}

/// Inserts the order and writes its event, in one transaction: there is never one without the other.
pub(crate) async fn place(pool: &PgPool, order: Order) -> Result<Placed, ApiError> {
    let mut tx = pool.begin().await?;
    if !insert(&mut tx, &order).await? {
        tx.rollback().await?;
        return placed_before(pool, order).await;
    }
    let event_id = OrderCreated::from(&order).enqueue(&mut tx).await?;
    tx.commit().await?;
    tracing::debug!(order_id = order.order_id, %event_id, "order placed");
    Ok(Placed::New(order))
}

/// Whether the order is new. Waits for a transaction that is inserting the same id.
async fn insert(db: &mut PgConnection, order: &Order) -> sqlx::Result<bool> {
    let inserted = sqlx::query(
        "INSERT INTO orders.orders (order_id, customer_id, amount, currency, sku, quantity)
         VALUES ($1, $2, $3::text::numeric, $4, $5, $6) ON CONFLICT (order_id) DO NOTHING",
    )
    .bind(&order.order_id)
    .bind(&order.customer_id)
    .bind(order.amount.to_string())
    .bind(&order.currency)
    .bind(&order.sku)
    .bind(order.quantity)
    .execute(db)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// The same order again is answered like the first time; another one under this id is a mistake of the client.
async fn placed_before(pool: &PgPool, wanted: Order) -> Result<Placed, ApiError> {
    let found = find(pool, &wanted.order_id).await?.ok_or(ApiError::NotFound)?;
    let same = Order { status: found.status, ..wanted } == found;
    if same { Ok(Placed::Before(found)) } else { Err(ApiError::Taken) }
}

/// The order with this id.
pub(crate) async fn find(pool: &PgPool, order_id: &str) -> Result<Option<Order>, ApiError> {
    let row = sqlx::query(
        "SELECT order_id, customer_id, amount::text AS amount, currency, sku, quantity, status FROM orders.orders WHERE order_id = $1",
    )
    .bind(order_id)
    .fetch_optional(pool)
    .await?;
    row.map(|row| read(&row)).transpose().map_err(ApiError::Internal)
}

fn read(row: &PgRow) -> anyhow::Result<Order> {
    let amount: String = row.try_get("amount")?;
    let status: &str = row.try_get("status")?;
    Ok(Order {
        order_id: row.try_get("order_id")?,
        customer_id: row.try_get("customer_id")?,
        amount: amount.parse().map_err(anyhow::Error::msg)?,
        currency: row.try_get("currency")?,
        sku: row.try_get("sku")?,
        quantity: row.try_get("quantity")?,
        status: match status {
            "Pending" => Status::Pending,
            "Reserved" => Status::Reserved,
            other => anyhow::bail!("an order has the unknown status {other:?}"),
        },
    })
}

/// Notes that stock was reserved; false when there is no such order.
pub(crate) async fn confirm(db: &mut PgConnection, order_id: &str) -> anyhow::Result<bool> {
    let updated = sqlx::query(
        "UPDATE orders.orders SET status = 'Reserved', confirmations = confirmations + 1, reserved_at = now() WHERE order_id = $1",
    )
    .bind(order_id)
    .execute(db)
    .await
    .context("marking the order as reserved")?;
    Ok(updated.rows_affected() == 1)
}

//! The event that this service publishes, the one it listens to, and what it does about it.

use outbox::{Outcome, event, handler};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::amount::Amount;
use crate::orders::{self, Order};

/// An order was placed.
#[event(name = "order.created", exchange = "orders.events", key = order_id)]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrderCreated {
    pub(crate) order_id: String,
    pub(crate) customer_id: String,
    pub(crate) amount: Amount,
    pub(crate) currency: String,
    pub(crate) sku: String,
    pub(crate) quantity: i32,
}

impl From<&Order> for OrderCreated {
    fn from(order: &Order) -> Self {
        Self {
            order_id: order.order_id.clone(),
            customer_id: order.customer_id.clone(),
            amount: order.amount.clone(),
            currency: order.currency.clone(),
            sku: order.sku.clone(),
            quantity: order.quantity,
        }
    }
}

/// The inventory service has reserved stock. Of its fields, this service needs one.
#[event(name = "stock.reserved", exchange = "stock.events", key = order_id)]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StockReserved {
    pub(crate) order_id: String,
}

/// Runs in the transaction that also records the event's id: however often the event arrives, the order changes once.
#[handler(consumer = "orders", concurrency = 8, timeout = "10s")]
pub(crate) async fn mark_reserved(reserved: StockReserved, db: &mut PgConnection) -> anyhow::Result<Outcome> {
    if orders::confirm(db, &reserved.order_id).await? {
        Ok(Outcome::Done)
    } else {
        // The order was committed before anybody heard of it: waiting would not help, a person has to look.
        Ok(Outcome::Dead(format!("there is no order {}", reserved.order_id)))
    }
}

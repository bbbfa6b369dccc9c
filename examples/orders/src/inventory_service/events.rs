//! The events of this service. It has a type of its own for what it hears: the order service's other fields are none of its business, and the two
//! are built and deployed on their own.

use outbox::event;
use serde::{Deserialize, Serialize};

/// An order was placed: the fields that stock needs.
#[event(name = "order.created", exchange = "orders.events", key = order_id)]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrderCreated {
    pub(crate) order_id: String,
    pub(crate) sku: String,
    pub(crate) quantity: i32,
}

/// Stock was reserved for an order.
#[event(name = "stock.reserved", exchange = "stock.events", key = order_id)]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StockReserved {
    pub(crate) order_id: String,
    pub(crate) reservation_id: i64,
    pub(crate) sku: String,
    pub(crate) quantity: i32,
}

//! The HTTP interface.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use outbox::Runtime;
use serde::Deserialize;
use serde_json::json;
use sqlx::PgPool;
use ulid::Ulid;

use crate::amount::Amount;
use crate::error::ApiError;
use crate::orders::{self, Order, Placed, Status};

#[derive(Clone)]
struct App {
    pool: PgPool,
    runtime: Arc<Runtime>,
}

/// All routes.
pub(crate) fn router(pool: PgPool, runtime: Arc<Runtime>) -> Router {
    Router::new()
        .route("/orders", post(place_order))
        .route("/orders/{id}", get(find_order))
        .route("/health", get(health))
        .with_state(App { pool, runtime })
}

/// The body of `POST /orders`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewOrder {
    /// Chosen by the client, so that it may ask again when an answer got lost: the same order is placed once. Without it, a new one.
    order_id: Option<String>,
    customer_id: String,
    amount: Amount,
    currency: String,
    sku: String,
    quantity: i32,
}

impl NewOrder {
    /// Everything that the columns and the event's key ask for, checked before anything is written.
    fn check(self) -> Result<Order, ApiError> {
        let order_id = self.order_id.unwrap_or_else(|| Ulid::new().to_string());
        let id_fits = (1..=64).contains(&order_id.len())
            && order_id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        let text_fits = |text: &str| (1..=100).contains(&text.len()) && !text.chars().any(char::is_control);
        let problems = [
            (!id_fits, "orderId: 1 to 64 letters, digits, `-`, `_` or `.`"),
            (!text_fits(&self.customer_id), "customerId: 1 to 100 bytes of text"),
            (!text_fits(&self.sku), "sku: 1 to 100 bytes of text"),
            (self.currency.len() != 3 || !self.currency.bytes().all(|b| b.is_ascii_uppercase()), "currency: like CNY"),
            (self.quantity < 1, "quantity: at least 1"),
        ];
        let problems: Vec<&str> = problems.into_iter().filter_map(|(wrong, text)| wrong.then_some(text)).collect();
        if !problems.is_empty() {
            return Err(ApiError::Invalid(problems.join("; ")));
        }
        Ok(Order {
            order_id,
            customer_id: self.customer_id,
            amount: self.amount,
            currency: self.currency,
            sku: self.sku,
            quantity: self.quantity,
            status: Status::Pending,
        })
    }
}

async fn place_order(
    State(app): State<App>,
    body: Result<Json<NewOrder>, JsonRejection>,
) -> Result<Response, ApiError> {
    let order = body?.0.check()?;
    // In a task of its own: when the client hangs up, the server drops this future, and a transaction must not be dropped in the middle of its BEGIN.
    let placing = tokio::spawn(async move { orders::place(&app.pool, order).await });
    let placed = placing.await.map_err(|error| ApiError::Internal(error.into()))??;
    Ok(match placed {
        Placed::New(order) => (StatusCode::CREATED, Json(order)).into_response(),
        Placed::Before(order) => Json(order).into_response(),
    })
}

async fn find_order(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Order>, ApiError> {
    let order = orders::find(&app.pool, &id).await?;
    order.map(Json).ok_or(ApiError::NotFound)
}

/// 200 when everything is up, 503 otherwise; the body says what is down and why.
async fn health(State(app): State<App>) -> Response {
    let health = app.runtime.health();
    let parts: Vec<_> = health
        .components
        .iter()
        .map(|part| json!({ "name": part.name, "up": part.up, "failures": part.failures, "error": part.error }))
        .collect();
    let status = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": health.ready, "components": parts }))).into_response()
}

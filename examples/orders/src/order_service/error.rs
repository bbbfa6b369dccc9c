//! What a client is told when something is wrong.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why a request was not served.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// The body is not JSON, or not an order.
    Body(JsonRejection),
    /// The order does not make sense.
    Invalid(String),
    /// The order id is taken by another order.
    Taken,
    /// No such order.
    NotFound,
    /// Not the client's fault: it may ask again.
    Internal(anyhow::Error),
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        Self::Body(rejection)
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        Self::Internal(error.into())
    }
}

impl From<outbox::EnqueueError> for ApiError {
    fn from(error: outbox::EnqueueError) -> Self {
        Self::Internal(error.into())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::Body(rejection) => (rejection.status(), rejection.body_text()),
            Self::Invalid(text) => (StatusCode::UNPROCESSABLE_ENTITY, text),
            Self::Taken => (StatusCode::CONFLICT, "this orderId belongs to another order".to_owned()),
            Self::NotFound => (StatusCode::NOT_FOUND, "no such order".to_owned()),
            Self::Internal(error) => {
                // For the log, not for the client: it may name hosts and tables.
                tracing::error!(error = format!("{error:#}"), "a request failed");
                (StatusCode::SERVICE_UNAVAILABLE, "try again later".to_owned())
            }
        };
        (status, Json(json!({ "error": text }))).into_response()
    }
}

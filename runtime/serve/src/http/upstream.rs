//! The API of upstream's REST server: ACE-Step's own clients run unchanged.
//!
//! Every address is there with the prefix `/api` too. The book (`clients.md`) lists the differences on purpose.

mod adapters;
mod fields;
mod progress;
mod server;
mod tasks;
mod writing;

use std::sync::Arc;

use axum::{
    Json, Router,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use serde_json::{Map, Value, json};

pub(super) use self::server::Recent;
use super::{
    ApiError, Server,
    error::{self, wrong},
    input::text,
};
use crate::job::now;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/release_task", post(tasks::release))
        .route("/query_result", post(tasks::query))
        .route("/v1/audio", get(tasks::audio))
        .route("/format_input", post(writing::format))
        .route("/v1/create_sample", post(writing::sample))
        .route("/create_random_sample", post(writing::example))
        .route("/v1/model_inventory", get(server::inventory))
        .route("/v1/init", post(server::init))
        .route("/v1/reinitialize", post(server::reinitialize))
        .route("/v1/stats", get(server::stats))
        .route("/health", get(server::health))
        .route("/v1/lora/load", post(adapters::load))
        .route("/v1/lora/unload", post(adapters::unload))
        .route("/v1/lora/toggle", post(adapters::toggle))
        .route("/v1/lora/scale", post(adapters::scale))
        .route("/v1/lora/status", get(adapters::status))
        .route("/v1/training/{*rest}", any(absent))
        .route("/v1/dataset/{*rest}", any(absent))
}

/// Refuses training, which is no task of the server.
async fn absent() -> Failure {
    let message = "training and its data sets are not served over HTTP";
    ApiError::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", message)
        .hint("run `acestep train lora` on the machine of the songs")
        .into()
}

/// An error in upstream's form: a status and `detail`.
struct Failure(ApiError);

impl<E: Into<ApiError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error: ApiError = error.into();
        // A model or a file of the request that is not here is a fault of the request.
        let status = match error.error.code.as_str() {
            "model_not_found" | "voice_not_found" | "adapter_not_found" | "file_not_found" => {
                StatusCode::BAD_REQUEST
            }
            _ => error.status,
        };
        Self(ApiError { status, ..error })
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let ApiError { status, error, retry_after } = self.0;
        let body = json!({ "detail": error.line(), "code": error.code, "param": error.param });
        error::sent(status, retry_after, body)
    }
}

type Answer = Result<Json<Value>, Failure>;

/// Puts an answer into upstream's envelope.
fn wrapped(data: Value) -> Json<Value> {
    Json(json!({
        "data": data, "code": 200, "error": null, "timestamp": now(), "extra": null,
    }))
}

/// Reads a flag in upstream's spellings.
fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Number(number) => match number.as_f64() {
            Some(1.0) => Some(true),
            Some(0.0) => Some(false),
            _ => None,
        },
        Value::String(word) => match word.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "y" | "on" => Some(true),
            "0" | "false" | "no" | "n" | "off" | "" => Some(false),
            _ => None,
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Reads a flag of a request; false if it is left out.
fn is_set(object: &Map<String, Value>, key: &str) -> Result<bool, ApiError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(value) => flag(value).ok_or_else(|| wrong(key, "it must be true or false")),
    }
}

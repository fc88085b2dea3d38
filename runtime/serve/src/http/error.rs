//! Errors as JSON: `{"error": {"code", "message", "param", "hint"}}`, readable for OpenAI's clients.

use acestep_engine::error::counted;
use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{job::JobError, store::StoreError};

/// An answer that is an error.
#[derive(Debug, Clone)]
pub struct ApiError {
    /// The status.
    pub status: StatusCode,
    /// The reason.
    pub error: JobError,
    /// Seconds after which a repetition may succeed.
    pub retry_after: Option<u64>,
}

impl ApiError {
    /// An error with a word for programs and a message.
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, error: JobError::new(code, message), retry_after: None }
    }

    /// 400 with a word for programs and a message.
    pub fn bad(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 413 with a message.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// Adds a solution.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error = self.error.hint(hint);
        self
    }

    /// Names the wrong field.
    #[must_use]
    pub fn param(mut self, param: impl Into<String>) -> Self {
        self.error = self.error.param(param);
        self
    }

    /// The error of an unknown id. Another client's job gives the same.
    pub fn no_job() -> Self {
        Self::new(StatusCode::NOT_FOUND, "job_not_found", "no job has this id")
    }

    /// The error of an unknown address.
    pub fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "nothing is at this address")
            .hint("GET /openapi.json lists all addresses")
    }

    /// The error of a method that an address does not have.
    pub fn method_not_allowed() -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "method_not_allowed", "this address does not take this method")
    }

    /// The error of a request without a key, where one is needed.
    pub fn no_key() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "invalid_api_key", "a key is needed")
            .hint("send the header `Authorization: Bearer KEY`")
    }

    /// The error of a full queue.
    pub fn busy(waiting: u64, seconds: u64) -> Self {
        let message = format!("the queue is full: it has {}", counted(waiting as usize, "job"));
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", message);
        Self { retry_after: Some(seconds), ..error }
    }

    /// The error of a mistake in this program.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

impl From<JobError> for ApiError {
    fn from(error: JobError) -> Self {
        let status = match error.code.as_str() {
            "model_not_found" | "voice_not_found" | "adapter_not_found" | "file_not_found" => {
                StatusCode::NOT_FOUND
            }
            "voice_exists" => StatusCode::CONFLICT,
            "out_of_memory" | "disk_full" => StatusCode::INSUFFICIENT_STORAGE,
            "internal" | "worker_lost" | "device_failed" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        Self { status, error, retry_after: None }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if error.is_too_large {
            return Self::too_large("the change makes the job too large for the queue")
                .hint("the job stays as it is: shorten its title or its tags");
        }
        tracing::error!(%error, "the queue cannot be used");
        if error.is_full {
            let message = "the disk of the server is full";
            return Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", message);
        }
        let message = "the queue cannot be used; see the server's log";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "queue_unavailable", message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let JobError { code, message, param, hint } = self.error;
        let kind =
            if self.status.is_server_error() { "server_error" } else { "invalid_request_error" };
        let body = json!({
            "error": { "code": code, "message": message, "param": param, "hint": hint, "type": kind }
        });
        sent(self.status, self.retry_after, body)
    }
}

/// Answers with an error in the form of an API.
pub(super) fn sent(status: StatusCode, retry_after: Option<u64>, body: Value) -> Response {
    let again = retry_after.map(|seconds| [(header::RETRY_AFTER, HeaderValue::from(seconds))]);
    (status, again, Json(body)).into_response()
}

/// The error of a value of another program's field.
pub(super) fn wrong(key: &str, why: &str) -> ApiError {
    ApiError::bad("bad_value", format!("`{key}`: {why}")).param(key)
}

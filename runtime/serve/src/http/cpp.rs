//! The API of acestep.cpp's server: its page and its other clients run unchanged.
//!
//! The book (`clients.md`) lists the differences on purpose.

mod id;
mod parts;
mod props;
mod state;
mod submit;

use std::sync::Arc;

use axum::{
    Router,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::json;

use super::{ApiError, Server, error};

const MOST_SONGS: usize = 9;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/lm", post(submit::lm))
        .route("/synth", post(submit::synth))
        .route("/understand", post(submit::understand))
        .route("/vae", post(submit::vae))
        .route("/job", get(state::show).post(state::cancel))
        .route("/props", get(props::props))
        .route("/logs", get(props::logs))
}

/// An error in acestep.cpp's form: a status and `{"error": text}`.
struct Failure(ApiError);

impl<E: Into<ApiError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error: ApiError = error.into();
        let is_id = error.error.code == "job_not_found";
        let status = match error.status {
            // A model or a file that is not here is a fault of the request.
            StatusCode::NOT_FOUND if !is_id => StatusCode::BAD_REQUEST,
            // It has no word for jobs that were removed.
            StatusCode::GONE => StatusCode::NOT_FOUND,
            other => other,
        };
        Self(ApiError { status, ..error })
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let ApiError { status, error, retry_after } = self.0;
        error::sent(status, retry_after, json!({ "error": error.line() }))
    }
}

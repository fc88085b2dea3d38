//! Parts of requests, whose errors are JSON as all others.

use axum::{
    extract::{self, FromRequest, FromRequestParts, Request},
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;

use super::{ApiError, slow};

/// Values of the path.
#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

/// Values of the query.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

/// A body of JSON.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = extract::Path::from_request_parts(parts, state).await;
        read.map(|extract::Path(value)| Self(value))
            .map_err(|error| ApiError::new(error.status(), "bad_value", error.body_text()))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = extract::Query::from_request_parts(parts, state).await;
        read.map(|extract::Query(value)| Self(value))
            .map_err(|error| ApiError::new(error.status(), "bad_value", error.body_text()))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let read = axum::Json::from_request(request, state).await;
        read.map(|axum::Json(value)| Self(value)).map_err(|error| {
            if let Some(slow) = slow::of(&error) {
                return slow;
            }
            let code = match error.status() {
                StatusCode::PAYLOAD_TOO_LARGE => "too_large",
                StatusCode::UNSUPPORTED_MEDIA_TYPE => "bad_body",
                _ => "bad_json",
            };
            ApiError::new(error.status(), code, error.body_text())
        })
    }
}

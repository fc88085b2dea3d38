//! Parts of requests, whose errors are JSON as all others.

use std::{ops::Deref, sync::Arc};

use axum::{
    extract::{
        self, FromRequest, FromRequestParts, Request, path::ErrorKind, rejection::PathRejection,
    },
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{ApiError, Server, body_timeout, security::Caller};

/// The server of a request, and the client who asks.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    server: Arc<Server>,
    /// The name of the client's key, or `local` if there are no keys.
    pub(super) owner: String,
}

impl Deref for Asker {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl FromRequestParts<Arc<Server>> for Asker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, of: &Arc<Server>) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Caller>().ok_or_else(ApiError::no_key)?;
        Ok(Self { server: of.clone(), owner: caller.0.clone() })
    }
}

#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = extract::Path::from_request_parts(parts, state).await;
        read.map(|extract::Path(value)| Self(value)).map_err(|error| {
            if let PathRejection::FailedToDeserializePathParams(error) = &error
                && matches!(error.kind(), ErrorKind::InvalidUtf8InPathParam { .. })
            {
                return ApiError::bad("bad_value", "the address is not UTF-8");
            }
            // Ids of jobs and files follow the name of their collection.
            let message = match parts.uri.path().split('/').nth(3) {
                Some(id) if Uuid::parse_str(id).is_err() => format!("`{id:.100}` is no id"),
                _ => "the number in the address cannot be read".to_owned(),
            };
            ApiError::new(error.status(), "bad_value", message)
        })
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = extract::Query::from_request_parts(parts, state).await;
        read.map(|extract::Query(value)| Self(value)).map_err(|error| {
            let text = error.body_text();
            let why = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            let error = |message| ApiError::new(error.status(), "bad_value", message);
            match why.split_once(": ") {
                Some((field, why)) if !field.contains([' ', '`']) => {
                    let error = error(format!("`{field}` of the query cannot be read"));
                    let error = error.param(field);
                    // It names the keys that are known.
                    if why.starts_with("unknown field") { error.hint(why) } else { error }
                }
                _ => error(format!("the query cannot be read: {why}")),
            }
        })
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let read = axum::Json::from_request(request, state).await;
        read.map(|axum::Json(value)| Self(value)).map_err(|error| {
            if let Some(slow) = body_timeout::of(&error) {
                return slow;
            }
            let status = error.status();
            let (code, message) = match status {
                StatusCode::PAYLOAD_TOO_LARGE => ("too_large", "the JSON is larger than 1 MiB"),
                StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                    ("bad_body", "the body needs the header `Content-Type: application/json`")
                }
                _ => {
                    let message = "the body is not the JSON that this address takes";
                    return ApiError::bad("bad_json", message);
                }
            };
            ApiError::new(status, code, message)
        })
    }
}

//! The verdict on an answer.

use axum::{body::Body, http::response::Parts};
use futures_util::StreamExt;
use serde_json::Value;

use super::corpus::Sample;

/// Codes of server errors that the book documents: `(status, code)`.
const DOCUMENTED: [(u16, &str); 6] = [
    (503, "busy"),
    (504, "not_ended"),
    (501, "not_implemented"),
    (503, "not_ready"),
    (507, "disk_full"),
    (507, "out_of_memory"),
];
/// Addresses of acestep.cpp's server.
const CPP: [&str; 7] = ["/lm", "/synth", "/understand", "/vae", "/job", "/props", "/logs"];
/// Addresses of upstream's server, with and without `/api`.
const UPSTREAM: [&str; 14] = [
    "/release_task",
    "/query_result",
    "/v1/audio",
    "/format_input",
    "/v1/create_sample",
    "/create_random_sample",
    "/v1/model_inventory",
    "/v1/init",
    "/v1/reinitialize",
    "/v1/stats",
    "/health",
    "/v1/lora/",
    "/v1/training/",
    "/v1/dataset/",
];
/// Errors of the layers around all APIs.
const LAYERS: [&str; 5] =
    ["invalid_api_key", "wrong_origin", "wrong_host", "not_found", "method_not_allowed"];

/// Reads a body, at most 8 MiB of it.
pub(crate) async fn read(body: Body) -> Vec<u8> {
    let (mut stream, mut all) = (body.into_data_stream(), Vec::new());
    while let Some(Ok(bytes)) = stream.next().await {
        all.extend_from_slice(&bytes);
        if all.len() > 8 << 20 {
            break;
        }
    }
    all
}

/// Returns the fault of an answer, if it has one.
pub(crate) fn of(sample: &Sample, head: &Parts, body: &[u8]) -> Option<String> {
    let status = head.status.as_u16();
    if head.status.is_success() || matches!(status, 304 | 307 | 308) {
        return None;
    }
    if sample.method == "HEAD" {
        return (status >= 500 && status != 501 && status != 503)
            .then(|| format!("{status} for HEAD"));
    }
    let path = sample.path.split(['?', '#']).next().unwrap_or_default();
    let json: Value = match serde_json::from_slice(body) {
        Ok(json) => json,
        Err(_) => return Some(format!("{status} without JSON")),
    };
    let error = &json["error"];
    let (code, is_native) = match error["code"].as_str() {
        Some(code) => (code, error["message"].as_str().is_some_and(|text| !text.is_empty())),
        None => (json["code"].as_str().unwrap_or_default(), false),
    };
    let short = path.strip_prefix("/api").unwrap_or(path);
    let is_upstream =
        UPSTREAM.iter().any(|of| short == *of || of.ends_with('/') && short.starts_with(of));
    let is_right = match () {
        () if is_native && LAYERS.contains(&code) => true,
        () if CPP.contains(&path) => error.as_str().is_some_and(|text| !text.is_empty()),
        () if is_upstream => json["detail"].as_str().is_some_and(|text| !text.is_empty()),
        () => is_native,
    };
    if !is_right {
        return Some(format!("{status} of another form"));
    }
    let is_known = status < 500
        || DOCUMENTED.contains(&(status, code))
        || CPP.contains(&path) && matches!(status, 501 | 503 | 507);
    (!is_known).then(|| format!("{status} {code}"))
}

/// Returns the fault of an event of a WebSocket.
pub(crate) fn of_event(text: &str) -> Option<String> {
    let Ok(event) = serde_json::from_str::<Value>(text) else {
        return Some("an event that is no JSON".to_owned());
    };
    if event["event"].as_str().is_none() {
        return Some("an event without a name".to_owned());
    }
    let code = event["error"]["code"].as_str();
    let is_error = event["event"] == "error";
    (is_error && matches!(code, None | Some("internal"))).then(|| format!("an error {code:?}"))
}

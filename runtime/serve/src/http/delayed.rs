//! Answers in JSON that come when their job has ended.
//!
//! The header with the job's id is sent after a second at the latest. A client that loses its connection
//! then has the id, and a proxy sees signs of life, so it keeps the connection.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::time;
use uuid::Uuid;

use super::results::{EARLY, with_id};

/// Time between two signs of life. Proxies cut answers that are silent for 30 or 60 seconds.
const SIGN: Duration = Duration::from_secs(10);

/// Returns the answer of `later` if it comes within a second. Otherwise the header begins with `status`, and
/// the body has spaces, which JSON allows, until the body of `later` follows. A failure after that second has
/// no status of its own: the body says it.
pub(super) async fn answer(
    id: Uuid,
    status: StatusCode,
    later: impl Future<Output = impl IntoResponse> + Send + 'static,
) -> Response {
    let later = async { later.await.into_response() };
    with_id(begun(status, later, EARLY, SIGN).await, id)
}

async fn begun(
    status: StatusCode,
    later: impl Future<Output = Response> + Send + 'static,
    early: Duration,
    sign_after: Duration,
) -> Response {
    let mut later = Box::pin(later);
    if let Ok(response) = time::timeout(early, &mut later).await {
        return response;
    }
    let parts = stream::unfold(Some(later), move |later| async move {
        let mut later = later?;
        let part: (BoxStream<'static, _>, _) = match time::timeout(sign_after, &mut later).await {
            Ok(response) => (response.into_body().into_data_stream().boxed(), None),
            Err(_) => (stream::once(async { Ok(Bytes::from_static(b" ")) }).boxed(), Some(later)),
        };
        Some(part)
    });
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, kind, Body::from_stream(parts.flatten())).into_response()
}

#[cfg(test)]
mod tests {
    use axum::Json;
    use serde_json::{Value, json};
    use tokio::sync::oneshot;

    use super::*;

    fn refused() -> Response {
        (StatusCode::CONFLICT, Json(json!({ "error": "x" }))).into_response()
    }

    #[tokio::test]
    async fn an_early_answer_keeps_its_status() {
        let given = answer(Uuid::nil(), StatusCode::OK, async { refused() }).await;
        assert_eq!(given.headers()["x-job-id"], Uuid::nil().to_string());
        assert_eq!(given.status(), StatusCode::CONFLICT);
    }

    #[tokio::test]
    async fn a_late_answer_has_its_header_and_signs_of_life_before_its_body() {
        let (end, ended) = oneshot::channel();
        let later = async {
            ended.await.expect("an end");
            refused()
        };
        let given = begun(StatusCode::OK, later, Duration::ZERO, Duration::from_millis(1)).await;
        assert_eq!(given.status(), StatusCode::OK);
        assert_eq!(given.headers()["content-type"], "application/json");
        let mut pieces = given.into_body().into_data_stream();
        let mut text = Vec::new();
        for _ in 0..3 {
            text.extend(pieces.next().await.expect("a sign").expect("no failure"));
        }
        assert_eq!(text, b"   ");
        end.send(()).expect("someone waits");
        while let Some(piece) = pieces.next().await {
            text.extend(piece.expect("no failure"));
        }
        let read: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(read, json!({ "error": "x" }));
    }
}

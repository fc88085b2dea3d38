//! The rest of a body that nobody reads, such as one that is too large.
//!
//! If the connection closed at once, a client that still sends would see a broken pipe in place of the
//! answer. So the rest is read and dropped for a while.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::Request,
    middleware::Next,
    response::Response,
};
use futures_util::{Stream, StreamExt as _};
use tokio::{runtime::Handle, time};

/// The most bytes that are dropped.
const MOST: usize = 64 << 20;
/// The longest time to drop them.
const PATIENCE: Duration = Duration::from_secs(5);

/// A body that is read to its end when it is dropped.
struct Unread(Option<BodyDataStream>);

/// The layer.
pub(super) async fn layer(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let body = Body::from_stream(Unread(Some(body.into_data_stream())));
    next.run(Request::from_parts(parts, body)).await
}

impl Stream for Unread {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        let polled = body.poll_next_unpin(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.0 = None;
        }
        polled
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let (Some(mut body), Ok(runtime)) = (self.0.take(), Handle::try_current()) else { return };
        runtime.spawn(time::timeout(PATIENCE, async move {
            let mut dropped = 0;
            while let Some(Ok(bytes)) = body.next().await {
                dropped += bytes.len();
                if dropped > MOST {
                    return;
                }
            }
        }));
    }
}

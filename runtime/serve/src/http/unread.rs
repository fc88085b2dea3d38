//! The time of a body, and the rest of one that nobody reads, such as one that is too large.
//!
//! If the connection closed at once, a client that still sends would see a broken pipe in place of the
//! answer. So the rest is read and dropped for a while.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use futures_util::{Stream, StreamExt as _};
use tokio::{runtime::Handle, time};

use super::{
    Server,
    body_timeout::{Cut, Pace},
};

/// The most bytes that are dropped.
const MOST: usize = 64 << 20;
/// The longest time to drop them.
const PATIENCE: Duration = Duration::from_secs(5);

/// A body that is read to its end when it is dropped.
struct Unread {
    body: Option<BodyDataStream>,
    pace: Pace,
}

/// The layer.
pub(super) async fn layer(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let (body, pace) = (Some(body.into_data_stream()), Pace::new(server.limits.body));
    let body = Body::from_stream(Unread { body, pace });
    next.run(Request::from_parts(parts, body)).await
}

impl Stream for Unread {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { body, pace } = &mut *self;
        let Some(stream) = body else { return Poll::Ready(None) };
        let polled = match stream.poll_next_unpin(cx) {
            Poll::Pending => {
                ready!(pace.poll_late(cx));
                Some(Err(axum::Error::new(Cut::Slow)))
            }
            Poll::Ready(polled) => polled,
        };
        match &polled {
            Some(Ok(bytes)) => pace.came(bytes.len()),
            None | Some(Err(_)) => *body = None,
        }
        Poll::Ready(polled)
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let (Some(mut body), Ok(runtime)) = (self.body.take(), Handle::try_current()) else {
            return;
        };
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

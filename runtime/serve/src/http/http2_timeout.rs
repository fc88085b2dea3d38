//! Answers over HTTP/2 whose client grants no flow-control window (RFC 9113, section 5.2). Its connection still
//! takes pings, so `write_timeout` does not notice it.
//!
//! hyper asks a body for its next piece when the one before is on its way. So the body notes when it gave a
//! piece. hyper hands the task of the answer to its executor; the task ends if nothing asks for the next piece.

use std::{
    cell::Cell,
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::Response,
};
use hyper::{
    body::{Frame, SizeHint},
    rt::Executor,
};
use tokio::{
    sync::watch,
    time::{self, Instant},
};

/// The most bytes of a piece. The rest of the last piece stays in memory until its client takes it.
const PIECE: usize = 32 << 10;

tokio::task_local! {
    /// The time when the piece was given that waits for its client.
    static GIVEN: Cell<Option<Instant>>;
}

/// Runs the answers of HTTP/2. One is reset if the client takes no piece for `limit`; the others of the
/// connection go on.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    pub(super) limit: Duration,
    /// The answers of the connection that are on their way.
    pub(super) open: watch::Sender<usize>,
}

impl<F: Future + Send + 'static> Executor<F> for Answers {
    fn execute(&self, answer: F) {
        let (limit, open) = (self.limit, Open(self.open.clone()));
        open.0.send_modify(|count| *count += 1);
        tokio::spawn(GIVEN.scope(Cell::default(), async move {
            let _open = open;
            taken(answer, limit).await;
        }));
    }
}

/// An answer that is on its way; also one that panics ends.
struct Open(watch::Sender<usize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Ready when no answer of the connection was on its way for `limit`.
pub(super) async fn idle(open: &watch::Sender<usize>, limit: Duration) {
    let mut count = open.subscribe();
    loop {
        let is_idle = *count.borrow_and_update() == 0;
        if time::timeout(limit, count.changed()).await.is_err() && is_idle {
            return;
        }
    }
}

/// Runs an answer to its end, or until its client takes no piece for `limit`.
async fn taken(answer: impl Future + Send, limit: Duration) {
    let mut answer = pin!(answer);
    let mut end = pin!(time::sleep(limit));
    poll_fn(|cx| {
        if answer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(given) = GIVEN.with(Cell::get) else { return Poll::Pending };
        if end.deadline() != given + limit {
            end.as_mut().reset(given + limit);
        }
        end.as_mut().poll(cx)
    })
    .await;
}

/// Notes the pieces of an answer of HTTP/2.
pub(super) async fn noted(answer: Response) -> Response {
    answer.map(|body| Body::new(Noted { body, rest: Bytes::new() }))
}

struct Noted {
    body: Body,
    /// The rest of a large piece.
    rest: Bytes,
}

impl HttpBody for Noted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, rest } = &mut *self;
        if GIVEN.try_with(|given| given.set(None)).is_err() {
            // HTTP/1 has no task for an answer.
            return Pin::new(body).poll_frame(cx);
        }
        if rest.is_empty() {
            let frame = match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => *rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        GIVEN.with(|given| given.set(Some(Instant::now())));
        let piece = rest.split_to(rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

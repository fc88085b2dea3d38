//! Bodies of requests that come too slowly. A client that sends a byte a minute would hold its connection, and
//! what the server keeps of its request, for ever.

use std::{
    error::Error,
    iter,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::http::StatusCode;
use tokio::time::{self, Instant, Sleep};

use super::ApiError;

/// The time that a client took for a body.
pub(super) struct Pace {
    /// The longest time without a byte.
    silence: Duration,
    bytes: u64,
    /// The time that was waited for these bytes.
    waited: Duration,
    /// The present wait: its begin, and the end of its time.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Pace {
    /// The pace of a body that has not begun.
    pub(super) fn new(silence: Duration) -> Self {
        Self { silence, bytes: 0, waited: Duration::ZERO, waiting: None }
    }

    /// Notes bytes that came.
    pub(super) fn came(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if let Some((begin, _)) = self.waiting.take() {
            self.waited += begin.elapsed();
        }
    }

    /// The time that is left for the next byte: one silence in all, and a millisecond for each byte that came.
    /// Telephone modems are faster than 1000 bytes a second.
    fn left(&self) -> Duration {
        let in_all = self.silence + Duration::from_millis(self.bytes);
        in_all.saturating_sub(self.waited).min(self.silence)
    }

    /// Ready when the client has no time left for the next byte.
    pub(super) fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let left = self.left();
        let begin = || (Instant::now(), Box::pin(time::sleep(left)));
        let (_, end) = self.waiting.get_or_insert_with(begin);
        end.as_mut().poll(cx)
    }
}

/// The reason why a body is read no further.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum Cut {
    /// It comes too slowly.
    #[error("the body of the request comes too slowly")]
    Slow,
    /// There is no memory for it.
    #[error("large requests of others fill the memory for them")]
    Busy,
    /// The header of a part of a form goes on and on.
    #[error("the header of a part of the form is longer than 64 KiB")]
    Header,
}

/// Returns the answer to a request that could not be read, if its body was cut.
pub(super) fn of(error: &(dyn Error + 'static)) -> Option<ApiError> {
    let mut causes = iter::successors(Some(error), |error| (**error).source());
    let cut = causes.find_map(|cause| cause.downcast_ref::<Cut>())?;
    let (status, code, retry_after, hint) = match cut {
        Cut::Slow => {
            let hint = "send it again, with 1000 bytes a second at least and without a long pause";
            (StatusCode::REQUEST_TIMEOUT, "too_slow", None, hint)
        }
        Cut::Header => {
            let hint = "after the lines of its header, a part has an empty line and its content";
            (StatusCode::BAD_REQUEST, "bad_form", None, hint)
        }
        Cut::Busy => {
            let hint = "try again, or send sound as a file with POST /v1/files";
            (StatusCode::SERVICE_UNAVAILABLE, "busy", Some(10), hint)
        }
    };
    let error = ApiError::new(status, code, cut.to_string()).hint(hint);
    Some(ApiError { retry_after, ..error })
}

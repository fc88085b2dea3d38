//! Forms, part by part. multer keeps the header of a part until its end comes, however long it is.

use std::{
    mem,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::{FromRequest, Multipart, Request, multipart::Field},
};
use futures_util::{Stream, StreamExt as _};

use super::{ApiError, body_timeout::Cut, files};

/// The most bytes before a part begins, and of its header.
const MOST: usize = 64 << 10;

/// A form. Each of its parts is read to the end before the next one.
pub(super) struct Form {
    parts: Multipart,
    /// The bytes that may come until a part begins.
    left: Arc<AtomicUsize>,
}

impl Form {
    /// Begins to read a form. Errors: a request without one.
    pub(super) async fn of(request: Request) -> Result<Self, ApiError> {
        let (head, body) = request.into_parts();
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let body = Pieces { body: body.into_data_stream(), left: left.clone(), has_given: false };
        let request = Request::from_parts(head, Body::from_stream(body));
        let parts = Multipart::from_request(request, &()).await;
        let parts = parts.map_err(|error| ApiError::bad("bad_form", error.to_string()))?;
        Ok(Self { parts, left })
    }

    /// Returns the next part. Errors: a form that is cut, damaged or too large.
    pub(super) async fn next_field(&mut self) -> Result<Option<Field<'_>>, ApiError> {
        self.left.store(MOST, Relaxed);
        let part = self.parts.next_field().await;
        self.left.store(usize::MAX, Relaxed);
        part.map_err(|error| files::of_form(&error))
    }
}

/// The body of a form.
struct Pieces {
    body: BodyDataStream,
    left: Arc<AtomicUsize>,
    /// True after a piece was given.
    has_given: bool,
}

impl Stream for Pieces {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // multer takes all pieces that are there before it looks at one.
        if mem::take(&mut self.has_given) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let left = self.left.load(Relaxed);
        if left == 0 {
            return Poll::Ready(Some(Err(axum::Error::new(Cut::Header))));
        }
        let piece = ready!(self.body.poll_next_unpin(cx));
        if let Some(Ok(bytes)) = &piece {
            self.has_given = true;
            if left < usize::MAX {
                self.left.store(left.saturating_sub(bytes.len()), Relaxed);
            }
        }
        Poll::Ready(piece)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    /// Eight pieces are 64 KiB.
    #[tokio::test]
    async fn a_long_part_is_taken_and_a_long_header_is_read_no_further() {
        let head = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n";
        for (begin, is_taken) in [(format!("{head}\r\n"), true), (format!("{head}X: "), false)] {
            let given = Arc::new(AtomicUsize::new(0));
            let count = given.clone();
            let rest = (0..100).map(move |_| {
                count.fetch_add(1, Relaxed);
                "x".repeat(8 << 10)
            });
            let pieces = [begin].into_iter().chain(rest).chain(["\r\n--b--\r\n".to_owned()]);
            let body = Body::from_stream(stream::iter(pieces.map(Ok::<_, Infallible>)));
            let kind = "multipart/form-data; boundary=b";
            let request = Request::builder().header("content-type", kind).body(body);
            let mut form = Form::of(request.expect("a request")).await.expect("a form");
            match form.next_field().await {
                Ok(part) => {
                    let bytes = part.expect("a part").bytes().await.expect("its content");
                    assert_eq!((is_taken, bytes.len()), (true, 100 << 13));
                }
                Err(error) => {
                    let code = &*error.error.code;
                    assert_eq!((is_taken, code, given.load(Relaxed)), (false, "bad_form", 8));
                }
            }
        }
    }
}

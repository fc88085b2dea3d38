//! Clients that take nothing of their answer. Without a limit each of them would hold its connection, and what
//! the server keeps of its answer, for ever.
//!
//! The time runs only while bytes wait for the client. A quiet event stream or WebSocket has no limit here.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{self, Sleep},
};

/// A connection that fails when its client takes no byte for too long.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    socket: S,
    limit: Duration,
    /// The end of the time to take the next byte.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> WriteTimeout<S> {
    /// A connection whose client has `limit` for each byte.
    pub(super) fn new(socket: S, limit: Duration) -> Self {
        Self { socket, limit, waiting: None }
    }

    /// Writes with `write`; an error if the client has no time left.
    fn written(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.socket), cx) {
            self.waiting = None;
            return Poll::Ready(written);
        }
        let limit = self.limit;
        let end = self.waiting.get_or_insert_with(|| Box::pin(time::sleep(limit)));
        ready!(end.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written(cx, |socket, cx| socket.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.written(cx, |socket, cx| socket.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_client_has_the_time_for_each_byte_and_not_for_all() {
        let limit = Duration::from_secs(1);
        let (mut client, server) = tokio::io::duplex(1);
        let mut server = WriteTimeout::new(server, limit);
        let begin = time::Instant::now();
        let slow = async {
            for _ in 0..6 {
                time::sleep(limit / 4).await;
                client.read_u8().await.expect("a byte");
            }
        };
        // The connection has room for the seventh.
        let (written, ()) = tokio::join!(server.write_all(&[0; 7]), slow);
        written.expect("a client that is slow");
        assert!(begin.elapsed() > limit);
        let error = server.write_all(&[0; 1]).await.expect_err("a client that takes nothing");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}

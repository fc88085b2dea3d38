//! Connections of clients.
//!
//! `axum::serve` waits for the header of a request for ever. So a client that says nothing, or a thousand of
//! them, would keep the descriptors that others need.

use std::{io, pin::pin, time::Duration};

use axum::{Router, http::Version, middleware};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time,
};

use super::{Limits, http2_timeout, write_timeout::WriteTimeout};

/// Time until the next attempt if the system has no descriptor left.
const RETRY: Duration = Duration::from_secs(1);

/// Time until the next look at a connection with too few bytes.
const LOOK: Duration = Duration::from_millis(50);
/// The first bytes of a client of HTTP/2, RFC 9113, section 3.4.
const HTTP2: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Answers requests until `stopped` is ready, and then those on their way. A connection ends if the header of
/// its next request takes too long; one of HTTP/2, if its client is silent so long and does not answer a ping in
/// the same time again, or asks nothing for too long. It also ends if its client takes nothing of an answer for
/// too long; over HTTP/2, that answer ends.
pub(super) async fn answer(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stopped: impl Future<Output = ()>,
) {
    let router = router.layer(middleware::map_response(http2_timeout::noted));
    let open = GracefulShutdown::new();
    let (ending, ended) = watch::channel(());
    let mut stopped = pin!(stopped);
    loop {
        let socket = tokio::select! {
            socket = accept(&listener) => socket,
            () = &mut stopped => break,
        };
        let (router, watcher) = (router.clone(), open.watcher());
        let mut ended = ended.clone();
        tokio::spawn(async move {
            let first = time::timeout(limits.headers, first_version(&socket));
            let version = tokio::select! {
                version = first => version.ok().flatten(),
                // Browsers open connections ahead. One that says nothing does not hold up the end.
                _ = ended.changed() => None,
            };
            let Some(version) = version else { return };
            let is_http2 = version == Version::HTTP_2;
            let service = TowerToHyperService::new(router);
            let socket = TokioIo::new(WriteTimeout::new(socket, limits.answer));
            let answers = watch::Sender::new(0);
            let builder = builder(limits, answers.clone());
            let connection = builder.serve_connection_with_upgrades(socket, service);
            let ended = tokio::select! {
                ended = watcher.watch(connection.into_owned()) => ended,
                () = http2_timeout::idle(&answers, limits.idle), if is_http2 => Ok(()),
            };
            if let Err(error) = ended {
                tracing::debug!(error = &*error, "a connection ended");
            }
        });
    }
    drop((listener, ending));
    open.shutdown().await;
}

/// Returns the settings of a connection, which counts its answers over HTTP/2 in `open`.
fn builder(limits: Limits, open: watch::Sender<usize>) -> Builder<http2_timeout::Answers> {
    let limit = limits.headers;
    let mut builder = Builder::new(http2_timeout::Answers { limit: limits.answer, open });
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limit);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).enable_connect_protocol();
    http2.keep_alive_interval(limit).keep_alive_timeout(limit);
    builder
}

/// Waits until the first bytes tell the version of HTTP: the builder reads them without a limit of time. None
/// if the client closes before that.
async fn first_version(socket: &TcpStream) -> Option<Version> {
    let mut first = [0; HTTP2.len()];
    loop {
        match socket.peek(&mut first).await {
            Ok(0) | Err(_) => return None,
            Ok(read) if first[..read] != HTTP2[..read] => return Some(Version::HTTP_11),
            Ok(read) if read == HTTP2.len() => return Some(Version::HTTP_2),
            Ok(_) => time::sleep(LOOK).await,
        }
    }
}

/// Returns the next connection.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        let error = match listener.accept().await {
            Ok((socket, _)) => return socket,
            Err(error) => error,
        };
        // The client is gone already. Anything else concerns the machine, and may pass.
        if !matches!(
            error.kind(),
            io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::ConnectionReset
        ) {
            tracing::error!(%error, "no connection can be accepted");
            time::sleep(RETRY).await;
        }
    }
}

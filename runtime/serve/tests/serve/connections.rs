//! Connections whose clients say nothing, or not all.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use acestep_serve::http::{Security, Server};

use crate::{
    support::Running,
    web::{client, get},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_end_its_header_is_let_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = |server: &mut Server| server.limits.headers = Duration::from_millis(300);
    let running = Running::with(folder.path(), Security::default(), 0, short).await;
    let (address, url) = (running.address, running.url("/health"));
    client(move || {
        for half in ["", "P", "GET /hea", "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"] {
            let mut socket = TcpStream::connect(address).expect("a connection");
            socket.write_all(half.as_bytes()).expect("written");
            socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
            let mut answer = Vec::new();
            // It ends, and not because of the test's own patience.
            let ended = socket.read_to_end(&mut answer);
            let gave_up = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
            assert!(!gave_up && !answer.starts_with(b"HTTP/1.1 200"), "{half:?}");
            assert_eq!(get(&url).status(), 200, "{half:?}");
        }
        // A header that comes in two parts, but in time.
        let mut socket = TcpStream::connect(address).expect("a connection");
        for part in ["GET /health HTTP/1.1\r\nHost: ", "127.0.0.1\r\n\r\n"] {
            socket.write_all(part.as_bytes()).expect("written");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut first = [0; 15];
        socket.read_exact(&mut first).expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200 OK");
    })
    .await;
}

//! Connections whose clients say nothing, or not all.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use acestep_serve::http::{Limits, Security};
use serde_json::json;

use crate::web::{Served, body, served_with};

async fn limited(change: impl FnOnce(&mut Limits)) -> Served {
    served_with(1, Security::default(), |server| change(&mut server.limits)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_end_its_header_is_let_go() {
    let api = limited(|limits| limits.headers = Duration::from_millis(300)).await;
    let address = api.running.address;
    let http2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for half in ["", "P", "GET /hea", "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n", http2] {
        let mut socket = TcpStream::connect(address).expect("a connection");
        socket.write_all(half.as_bytes()).expect("written");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut answer = Vec::new();
        // It ends, and not because of the test's own patience.
        let ended = socket.read_to_end(&mut answer);
        let gave_up = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!gave_up && !answer.starts_with(b"HTTP/1.1 200"), "{half:?}");
        assert_eq!(api.get("/health").status(), 200, "{half:?}");
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
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_of_its_answer_is_let_go() {
    let second = Duration::from_secs(1);
    let api = limited(|limits| (limits.answer, limits.idle) = (second, second)).await;
    let address = api.running.address;
    let request = json!({ "request": { "caption": "x", "duration": 60 } });
    let job = body(api.post("/v1/jobs?wait=300", &request));
    let sound = &job["outputs"][0];
    let (path, whole) = (sound["url"].as_str().expect("a url"), sound["bytes"].as_u64());
    let whole = whole.expect("a number") as usize;
    let taken_after = |pause| {
        let mut socket = TcpStream::connect(address).expect("a connection");
        let head = "HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close";
        write!(socket, "GET {path} {head}\r\n\r\n").expect("written");
        std::thread::sleep(pause);
        let mut answer = Vec::new();
        // A connection that is cut may be an error.
        let _ = socket.read_to_end(&mut answer);
        answer.len()
    };
    assert!(taken_after(Duration::ZERO) > whole);
    let taken = taken_after(Duration::from_secs(4));
    assert!(taken < whole, "{taken} of {whole} bytes");
    // CANCEL, RFC 9113, section 7.
    assert_eq!(over_http2(address, path, 0), (0, Some(8)));
    // It takes each piece in time, and longer for all.
    assert_eq!(over_http2(address, path, whole / 12), (whole, None));
}

/// Within the time of this test, no ping asks for a sign of life.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_nothing_over_http2_is_let_go() {
    let api = limited(|limits| limits.idle = Duration::from_millis(300)).await;
    let mut socket = TcpStream::connect(api.running.address).expect("a connection");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    // The preface and empty settings.
    let begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    socket.write_all(begin).expect("written");
    let ended = socket.read_to_end(&mut Vec::new());
    assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}

/// Asks for `path` over HTTP/2, and grants a window of `step` bytes after each pause. Returns the bytes that
/// come, and the code of a reset.
fn over_http2(address: SocketAddr, path: &str, step: usize) -> (usize, Option<u32>) {
    let frame = |kind: u8, flags: u8, stream: u8, content: &[u8]| {
        [&[0, 0, content.len() as u8, kind, flags, 0, 0, 0, stream][..], content].concat()
    };
    // RFC 7541: GET and http of the static table, then the path and the authority.
    let begin = [0x82, 0x86, 0x04, path.len() as u8];
    let head = [&begin[..], path.as_bytes(), b"\x01\x09127.0.0.1"].concat();
    let mut socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(Duration::from_millis(150))).expect("a timeout");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // The window of a new stream is 0.
    let settings = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    socket.write_all(&[preface, settings, frame(1, 5, 1, &head)].concat()).expect("written");
    let (mut come, mut taken, mut part) = (Vec::<u8>::new(), 0, [0; 65_536]);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        match socket.read(&mut part) {
            Ok(0) => break,
            Ok(read) => come.extend(&part[..read]),
            Err(_) if step == 0 => {}
            Err(_) => {
                for stream in [0, 1] {
                    let grant = frame(8, 0, stream, &(step as u32).to_be_bytes());
                    socket.write_all(&grant).expect("written");
                }
            }
        }
        while let [a, b, c, kind, flags, _, _, _, _, rest @ ..] = &*come
            && let Some(content) = rest.get(..u32::from_be_bytes([0, *a, *b, *c]) as usize)
        {
            let size = content.len();
            match kind {
                0 if flags & 1 == 1 => return (taken + size, None),
                0 => taken += size,
                3 => return (taken, Some(u32::from_be_bytes(content.try_into().expect("a code")))),
                _ => {}
            }
            come.drain(..9 + size);
        }
    }
    panic!("no end of the answer after {taken} bytes")
}

/// Sends a request whose body comes in pieces, ten a second, and returns the begin of the answer.
fn sent(address: SocketAddr, head: &str, length: usize, body: &str, piece: usize) -> String {
    let mut socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let head = format!("POST {head}\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n");
    socket.write_all(head.as_bytes()).expect("written");
    let (mut pieces, mut answer) = (body.as_bytes().chunks(piece), [0; 4096]);
    for _ in 0..3000 {
        if let Some(piece) = pieces.next() {
            // The answer may have come.
            let _ = socket.write_all(piece);
        }
        // Without an answer this is the pause.
        if let Ok(read) = socket.read(&mut answer) {
            let mut text = String::from_utf8_lossy(&answer[..read]).into_owned();
            while let Ok(read @ 1..) = socket.read(&mut answer) {
                text += &String::from_utf8_lossy(&answer[..read]);
            }
            return text;
        }
    }
    panic!("no answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_comes_too_slowly_is_refused_and_a_slow_one_is_taken() {
    let api = limited(|limits| limits.body = Duration::from_secs(3)).await;
    let address = api.running.address;
    let form = "/v1/files HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b";
    let file = "--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a\"\r\n\r\nsound";
    let blanks = " ".repeat(3000);
    for (head, body, piece, word) in [
        ("/v1/jobs HTTP/1.1", "{", 1, "\"code\":\"too_slow\""),
        (form, file, 100, "\"code\":\"too_slow\""),
        // A byte comes again and again.
        ("/release_task HTTP/1.1", &*blanks, 1, "\"detail\":\"the body of the request"),
    ] {
        let answer = sent(address, head, 3000, body, piece);
        assert!(answer.starts_with("HTTP/1.1 408 "), "{head}: {answer}");
        assert!(answer.contains(word), "{head}: {answer}");
    }
    assert_eq!(api.files(), 0);
    // It takes longer than the longest silence.
    let slow = format!("{{\"request\":{{\"caption\":\"x\"}}{}}}", " ".repeat(45_000));
    let answer = sent(address, "/v1/jobs HTTP/1.1", slow.len(), &slow, 1000);
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
}

//! Speech over a WebSocket, and the end of a server whose clients listen.

use std::{
    io::{Read, Write},
    sync::atomic::Ordering,
    time::Duration,
};

use acestep_serve::http::{Key, Security, Server};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message, client::IntoClientRequest},
};

use crate::{
    support::{Queue, Running},
    web::{body, client, get, post, start},
};

/// A client of the WebSocket.
pub(crate) struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    async fn open(running: &Running) -> Self {
        Self::at(running, "/v1/realtime").await
    }

    /// Opens a path.
    pub(crate) async fn at(running: &Running, path: &str) -> Self {
        let url = running.url(path).replacen("http", "ws", 1);
        Self(connect_async(url).await.expect("a connection").0)
    }

    pub(crate) async fn send(&mut self, value: Value) {
        self.0.send(Message::text(value.to_string())).await.expect("sent");
    }

    /// Returns the next event, and the number of bytes of sound before it; `null` at the end.
    async fn event(&mut self) -> (Value, usize) {
        let (event, sound) = self.heard().await;
        (event, sound.len())
    }

    /// Returns the next event, and the sound before it; `null` at the end.
    pub(crate) async fn heard(&mut self) -> (Value, Vec<u8>) {
        let (event, messages) = self.messages().await;
        (event, messages.concat())
    }

    /// Returns the next event, and the binary messages before it; `null` at the end.
    pub(crate) async fn messages(&mut self) -> (Value, Vec<Vec<u8>>) {
        let mut bytes = Vec::new();
        loop {
            let next = tokio::time::timeout(Duration::from_secs(600), self.0.next()).await;
            match next.expect("no long wait") {
                Some(Ok(Message::Binary(sound))) => bytes.push(sound.to_vec()),
                Some(Ok(Message::Text(text))) => {
                    return (serde_json::from_str(&text).expect("JSON"), bytes);
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(_) | Err(_)) | None => return (Value::Null, bytes),
            }
        }
    }

    /// Returns the next message of sound.
    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "for the feature `nats`"))]
    pub(crate) async fn sound(&mut self) -> Vec<u8> {
        let next = tokio::time::timeout(Duration::from_secs(600), self.0.next()).await;
        match next.expect("no long wait") {
            Some(Ok(Message::Binary(sound))) => sound.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Skips to the event of that name.
    async fn until(&mut self, name: &str) -> (Value, usize) {
        loop {
            let (event, bytes) = self.event().await;
            assert!(!event.is_null(), "no `{name}` before the end");
            if event["event"] == name {
                return (event, bytes);
            }
            assert_ne!(event["event"], "error", "{event}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_of_another_site_of_another_name_or_without_a_key_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let security = Security { keys: vec![Key::new("ann", "a-long-key")], ..Security::default() };
    let running = Running::start(folder.path(), security, 0).await;
    let own = running.url("");
    for path in ["/v1/realtime", "/ws/stream_tts", "/"] {
        let url = running.url(path).replacen("http", "ws", 1);
        let status = async |headers: &[(&'static str, &str)]| {
            let mut request = url.as_str().into_client_request().expect("an address");
            for (name, value) in headers {
                request.headers_mut().insert(*name, value.parse().expect("a value"));
            }
            match connect_async(request).await {
                Ok((_, answer)) => answer.status().as_u16(),
                Err(Error::Http(answer)) => answer.status().as_u16(),
                Err(error) => panic!("{error}"),
            }
        };
        let key = ("x-api-key", "a-long-key");
        assert_eq!(status(&[]).await, 401, "{path}");
        assert_eq!(status(&[("x-api-key", "another-key")]).await, 401, "{path}");
        assert_eq!(status(&[key, ("origin", "https://evil.example")]).await, 403, "{path}");
        assert_eq!(status(&[key, ("origin", "null")]).await, 403, "{path}");
        assert_eq!(status(&[key, ("host", "evil.example")]).await, 421, "{path}");
        assert_eq!(status(&[key, ("origin", &own)]).await, 101, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_follows_a_cancelled_one_is_spoken_alone() {
    let (running, _folder) = start().await;
    let mut socket = Socket::open(&running).await;
    socket.until("ready").await;
    socket.send(json!({ "type": "cancel" })).await;
    let (idle, _) = socket.until("cancelled").await;
    assert!(idle.get("id").is_none(), "nothing was spoken");
    socket.send(json!({ "type": "tts", "text": "a long text" })).await;
    let (first, _) = socket.until("job").await;
    socket.send(json!({ "type": "cancel" })).await;
    socket.send(json!({ "type": "tts", "text": "another text" })).await;
    let (cancelled, bytes) = socket.event().await;
    assert_eq!((&cancelled["event"], &cancelled["id"]), (&json!("cancelled"), &first["id"]));
    assert_eq!(bytes, 0);
    let (second, _) = socket.until("job").await;
    assert_ne!(first["id"], second["id"]);
    let (done, bytes) = socket.until("done").await;
    assert_eq!((&done["id"], bytes), (&second["id"], 48_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_text_that_waits_in_the_queue_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let queue = Queue::open(folder.path(), None).await;
    // A worker of another place, which has no time.
    let ready = |server: &mut Server| server.is_ready.store(true, Ordering::Relaxed);
    let mut running = Running::over(&queue, Security::default(), 0, 0, ready).await;
    let mut socket = Socket::open(&running).await;
    socket.send(json!({ "type": "tts", "text": "a text" })).await;
    let (job, _) = socket.until("job").await;
    // Recordings wait in memory, which has room for those of one message.
    for _ in 0..2 {
        socket.send(json!({ "type": "set_voice", "speaker_1": "A".repeat(9 << 20) })).await;
    }
    assert_eq!(socket.event().await.0["error"]["code"], "too_many");
    socket.send(json!({ "type": "cancel" })).await;
    assert_eq!(socket.until("cancelled").await.0["id"], job["id"]);
    // The end of the server closes the connection, and no text is submitted any more.
    for _ in 0..3 {
        socket.send(json!({ "type": "tts", "text": "a text" })).await;
    }
    socket.until("job").await;
    running.stop().await;
    assert_eq!(socket.event().await.0, Value::Null);
}

/// A worker that hears nothing reads the voice.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_while_its_voice_is_read_is_let_go_at_once() {
    let (running, _folder) = start().await;
    let mut socket = Socket::open(&running).await;
    socket.until("ready").await;
    socket.send(json!({ "type": "set_voice", "text": "hang" })).await;
    let (warming, _) = socket.until("warming").await;
    let url = running.url(&format!("/v1/jobs/{}", warming["id"].as_str().expect("an id")));
    client(move || {
        while body(get(&url))["state"] != "running" {
            std::thread::sleep(Duration::from_millis(20));
        }
    })
    .await;
    socket.0.send(Message::Close(None)).await.expect("sent");
    let over = async { while let Some(Ok(_)) = socket.0.next().await {} };
    tokio::time::timeout(Duration::from_secs(60), over).await.expect("the server closes too");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_sentences_of_a_long_text_are_spoken() {
    let (running, _folder) = start().await;
    let mut socket = Socket::open(&running).await;
    socket.send(json!({ "type": "append", "text": "fail. ".repeat(70) })).await;
    socket.send(json!({ "type": "append", "text": "The end" })).await;
    socket.send(json!({ "type": "end" })).await;
    let mut failed = 0;
    loop {
        let (event, _) = socket.event().await;
        match event["event"].as_str() {
            Some("error") => {
                assert_eq!(event["error"]["code"], "failed", "{event}");
                failed += 1;
            }
            Some("done") => break,
            Some(_) => {}
            None => panic!("the connection ended"),
        }
    }
    assert_eq!(failed, 70);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_ends_although_clients_listen_and_one_is_silent() {
    let (mut running, _folder) = start().await;
    let url = running.url("/v1/jobs");
    let address = running.address;
    let metrics = running.url("/metrics");
    let mut clients = client(move || {
        let job = json!({ "kind": "speak", "request": { "text": "a long text" } });
        let ask = |path: String| {
            let mut stream = std::net::TcpStream::connect(address).expect("a connection");
            stream.set_read_timeout(Some(Duration::from_secs(600))).expect("a timeout");
            write!(stream, "{path}\r\nHost: localhost\r\n\r\n").expect("written");
            stream
        };
        let jobs = [0, 1].map(|_| body(post(&url, &job))["id"].as_str().expect("an id").to_owned());
        let listening = jobs.map(|id| ask(format!("GET /v1/jobs/{id}/audio HTTP/1.1")));
        let silent = ask("POST /v1/jobs HTTP/1.1\r\nContent-Length: 100".to_owned());
        // These three and the question itself.
        while !body(get(&metrics)).as_str().is_some_and(|text| text.contains("_waiting 4\n")) {
            std::thread::sleep(Duration::from_millis(20));
        }
        (listening, silent)
    })
    .await;
    // The texts take more than a minute each, and the request that is silent never comes.
    tokio::time::timeout(Duration::from_secs(100), running.stop()).await.expect("it ends");
    client(move || {
        for stream in &mut clients.0 {
            let mut text = String::new();
            let _ = stream.read_to_string(&mut text);
            assert!(text.starts_with("HTTP/1.1 503"), "{text}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_of_a_refused_voice_are_removed() {
    let (running, folder) = start().await;
    let mut socket = Socket::open(&running).await;
    socket.until("ready").await;
    let files = || std::fs::read_dir(folder.path().join("files")).expect("a folder").count();
    for refused in [
        json!({ "type": "set_voice", "reference": "UklGRg==", "text": "fail" }),
        json!({ "type": "set_voice", "reference": "UklGRg==", "speaker_1": "#" }),
    ] {
        socket.send(refused.clone()).await;
        while socket.event().await.0["event"] != "error" {}
        // Messages wait until the voice is dealt with.
        socket.send(json!({ "type": "ping" })).await;
        socket.until("pong").await;
        assert_eq!(files(), 0, "{refused}");
    }
    socket.send(json!({ "type": "set_voice", "reference": "UklGRg==" })).await;
    socket.until("voice_ready").await;
    assert_eq!(files(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_sign_of_life_is_let_go_and_one_that_answers_pings_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = |server: &mut Server| server.limits.silence = Duration::from_secs(3);
    let running = Running::with(folder.path(), Security::default(), 0, short).await;
    let (mut silent, mut alive) = (Socket::open(&running).await, Socket::open(&running).await);
    silent.until("ready").await;
    alive.until("ready").await;
    // A client answers a ping when it reads.
    let reads = tokio::time::timeout(Duration::from_secs(8), alive.event());
    reads.await.expect_err("nothing is told, and nothing ends");
    alive.send(json!({ "type": "ping" })).await;
    alive.until("pong").await;
    let (end, _) = silent.event().await;
    assert_eq!(end, Value::Null);
}

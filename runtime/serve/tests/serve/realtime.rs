//! Speech over a WebSocket, and the end of a server whose clients listen.

use std::{
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use acestep_serve::http::{Security, Server};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message, client::IntoClientRequest},
};

use crate::{
    support::Running,
    web::{Api, Served, body, keys, served, served_with, text, until_some},
};

pub(crate) struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    /// Opens a path, and takes the greeting.
    pub(crate) async fn ready(running: &Running, path: &str) -> Self {
        let mut socket = Self::at(running, path).await;
        assert_eq!(socket.heard().await.0["event"], "ready");
        socket
    }

    pub(crate) async fn at(running: &Running, path: &str) -> Self {
        let url = running.url(path).replacen("http", "ws", 1);
        Self(connect_async(url).await.expect("a connection").0)
    }

    pub(crate) async fn send(&mut self, value: Value) {
        self.0.send(Message::text(value.to_string())).await.expect("sent");
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

    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "for the feature `nats`"))]
    pub(crate) async fn sound(&mut self) -> Vec<u8> {
        let next = tokio::time::timeout(Duration::from_secs(600), self.0.next()).await;
        match next.expect("no long wait") {
            Some(Ok(Message::Binary(sound))) => sound.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Lets a text be spoken; returns its end, and its messages of sound.
    pub(crate) async fn spoken(&mut self, text: Value) -> (Value, Vec<Vec<u8>>) {
        self.send(text).await;
        assert_eq!(self.heard().await.0["event"], "job");
        let (done, messages) = self.messages().await;
        assert_eq!(done["event"], "done", "{done}");
        (done, messages)
    }

    /// Sets a voice; returns what is told when it is ready.
    pub(crate) async fn voiced(&mut self, voice: Value) -> Value {
        self.send(voice).await;
        assert_eq!(self.heard().await.0["event"], "warming");
        let ready = self.heard().await.0;
        assert_eq!(ready["event"], "voice_ready", "{ready}");
        ready
    }

    /// Skips to the event of that name.
    async fn until(&mut self, name: &str) -> (Value, Vec<u8>) {
        loop {
            let (event, bytes) = self.heard().await;
            assert!(!event.is_null(), "no `{name}` before the end");
            if event["event"] == name {
                return (event, bytes);
            }
            assert_ne!(event["event"], "error", "{event}");
        }
    }
}

/// Starts a server, and opens a connection to it.
async fn greeted() -> (Served, Socket) {
    let server = served().await;
    let socket = Socket::ready(&server.running, "/v1/realtime").await;
    (server, socket)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_of_another_site_of_another_name_or_without_a_key_is_refused() {
    let server = served_with(1, keys(&[("ann", "a-long-key")]), |_| ()).await;
    let own = server.url("");
    for path in ["/v1/realtime", "/ws/stream_tts", "/"] {
        let url = server.url(path).replacen("http", "ws", 1);
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
    let (_server, mut socket) = greeted().await;
    socket.send(json!({ "type": "cancel" })).await;
    let (idle, _) = socket.until("cancelled").await;
    assert!(idle.get("id").is_none(), "nothing was spoken");
    socket.send(json!({ "type": "tts", "text": "a long text" })).await;
    let (first, _) = socket.until("job").await;
    socket.send(json!({ "type": "cancel" })).await;
    socket.send(json!({ "type": "tts", "text": "another text" })).await;
    let (cancelled, bytes) = socket.heard().await;
    assert_eq!((&cancelled["event"], &cancelled["id"]), (&json!("cancelled"), &first["id"]));
    assert_eq!(bytes.len(), 0);
    let (second, _) = socket.until("job").await;
    assert_ne!(first["id"], second["id"]);
    let (done, bytes) = socket.until("done").await;
    assert_eq!((&done["id"], bytes.len()), (&second["id"], 48_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_text_that_waits_in_the_queue_is_no_error() {
    // A worker of another place, which has no time.
    let ready = |server: &mut Server| server.is_ready.store(true, Ordering::Relaxed);
    let mut server = served_with(0, Security::default(), ready).await;
    let mut socket = Socket::ready(&server.running, "/v1/realtime").await;
    socket.send(json!({ "type": "tts", "text": "a text" })).await;
    let (job, _) = socket.until("job").await;
    // Recordings wait in memory, which has room for those of one message.
    for _ in 0..2 {
        socket.send(json!({ "type": "set_voice", "speaker_1": "A".repeat(9 << 20) })).await;
    }
    assert_eq!(socket.heard().await.0["error"]["code"], "too_many");
    socket.send(json!({ "type": "cancel" })).await;
    assert_eq!(socket.until("cancelled").await.0["id"], job["id"]);
    // The end of the server closes the connection, and no text is submitted any more.
    for _ in 0..3 {
        socket.send(json!({ "type": "tts", "text": "a text" })).await;
    }
    socket.until("job").await;
    server.running.stop().await;
    assert_eq!(socket.heard().await.0, Value::Null);
}

/// A worker that hears nothing reads the voice.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_while_its_voice_is_read_is_let_go_at_once() {
    let (server, mut socket) = greeted().await;
    socket.send(json!({ "type": "set_voice", "text": "hang" })).await;
    let (warming, _) = socket.until("warming").await;
    server.until(&text(&warming["id"]), |job| job["state"] == "running");
    socket.0.send(Message::Close(None)).await.expect("sent");
    let over = async { while let Some(Ok(_)) = socket.0.next().await {} };
    tokio::time::timeout(Duration::from_secs(60), over).await.expect("the server closes too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_with_a_word_of_both_sides() {
    let server = served().await;
    for end in [Message::text(r#"{"type": "close"}"#), Message::Close(None)] {
        let mut socket = Socket::ready(&server.running, "/v1/realtime").await;
        socket.0.send(end).await.expect("sent");
        let heard = tokio::time::timeout(Duration::from_secs(60), socket.0.next()).await;
        assert!(matches!(heard, Ok(Some(Ok(Message::Close(_))))), "{heard:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_voice_speaks_with_its_model() {
    let server = served().await;
    let mut socket = Socket::at(&server.running, "/v1/realtime?voice=duo").await;
    assert_eq!(socket.until("ready").await.0["model"], "tiny-talk");
    socket.send(json!({ "type": "tts", "text": "hello" })).await;
    let (job, _) = socket.until("job").await;
    assert_eq!(server.job(&text(&job["id"]))["request"]["model"], "tiny-talk");
}

/// Nobody hears the rest of its text.
#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_client_that_goes_away_is_cancelled() {
    let (server, mut socket) = greeted().await;
    socket.send(json!({ "type": "tts", "text": "a long text" })).await;
    let (job, _) = socket.until("job").await;
    drop(socket);
    let ended = server.job(&format!("{}?wait=60", text(&job["id"])));
    assert_eq!(ended["state"], "cancelled", "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_20_a_client_is_greeted_when_a_worker_is_warm() {
    let is_warm = Arc::new(AtomicBool::new(false));
    let own = is_warm.clone();
    let change = |server: &mut Server| server.is_ready = own;
    let server = served_with(0, Security::default(), change).await;
    let mut socket = Socket::at(&server.running, "/v1/realtime").await;
    assert_eq!(socket.heard().await.0["event"], "warming");
    is_warm.store(true, Ordering::Relaxed);
    assert_eq!(socket.heard().await.0["event"], "ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_sentences_of_a_long_text_are_spoken() {
    let (_server, mut socket) = greeted().await;
    socket.send(json!({ "type": "append", "text": "fail. ".repeat(70) })).await;
    socket.send(json!({ "type": "append", "text": "The end" })).await;
    socket.send(json!({ "type": "end" })).await;
    let mut failed = 0;
    loop {
        let (event, _) = socket.heard().await;
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
async fn a_text_that_fails_after_some_sound_has_the_error_of_its_job() {
    let (_server, mut socket) = greeted().await;
    socket.send(json!({ "type": "tts", "text": "collapse" })).await;
    socket.until("job").await;
    let (event, _) = socket.heard().await;
    assert_eq!(event["error"]["code"], "bad_result", "{event}");
    assert_eq!(event["error"]["hint"], "say something else");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_ends_although_clients_listen_and_one_is_silent() {
    let mut server = served().await;
    let (api, address): (Api, _) = (server.clone(), server.running.address);
    let job = json!({ "kind": "speak", "request": { "text": "a long text" } });
    let ask = |path: String| {
        let mut stream = std::net::TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(600))).expect("a timeout");
        write!(stream, "{path}\r\nHost: localhost\r\n\r\n").expect("written");
        stream
    };
    let jobs = [0, 1].map(|_| text(&body(api.post("/v1/jobs", &job))["id"]));
    let listening = jobs.map(|id| ask(format!("GET /v1/jobs/{id}/audio HTTP/1.1")));
    let _silent = ask("POST /v1/jobs HTTP/1.1\r\nContent-Length: 100".to_owned());
    // These three and the question itself.
    until_some(|| text(&body(api.get("/metrics"))).contains("_waiting 4\n").then_some(()));
    // The texts take more than a minute each, and the request that is silent never comes.
    tokio::time::timeout(Duration::from_secs(100), server.running.stop()).await.expect("it ends");
    for mut stream in listening {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        assert!(text.starts_with("HTTP/1.1 503"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_of_a_refused_voice_are_removed() {
    let (server, mut socket) = greeted().await;
    for refused in [
        json!({ "type": "set_voice", "reference": "UklGRg==", "text": "fail" }),
        json!({ "type": "set_voice", "reference": "UklGRg==", "speaker_1": "#" }),
    ] {
        socket.send(refused.clone()).await;
        while socket.heard().await.0["event"] != "error" {}
        // Messages wait until the voice is dealt with.
        socket.send(json!({ "type": "ping" })).await;
        socket.until("pong").await;
        assert_eq!(server.files(), 0, "{refused}");
    }
    socket.send(json!({ "type": "set_voice", "reference": "UklGRg==" })).await;
    socket.until("voice_ready").await;
    assert_eq!(server.files(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_sign_of_life_is_let_go_and_one_that_answers_pings_stays() {
    let short = |server: &mut Server| server.limits.silence = Duration::from_secs(3);
    let server = served_with(1, Security::default(), short).await;
    let (running, path) = (&server.running, "/v1/realtime");
    let mut silent = Socket::ready(running, path).await;
    let mut alive = Socket::ready(running, path).await;
    // A client answers a ping when it reads.
    let reads = tokio::time::timeout(Duration::from_secs(8), alive.heard());
    reads.await.expect_err("nothing is told, and nothing ends");
    alive.send(json!({ "type": "ping" })).await;
    alive.until("pong").await;
    let (end, _) = silent.heard().await;
    assert_eq!(end, Value::Null);
}

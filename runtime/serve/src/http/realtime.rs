//! Speech over a WebSocket: text in pieces, sound while it is made.
//!
//! The book lists the messages (`serve.md`, `realtime.md`). An error is `{"event": "error", "error": {..}}`, and the
//! connection stays open. A slow client is waited for: nothing piles up. At `/ws/stream_tts`, and where a WebSocket
//! is opened at `/`, the clients are those of stream-dia2: see `stream_dia2`.

mod heartbeat;
mod messages;
mod pieces;
mod sentences;
mod speak;
mod stream_dia2;
mod voice;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::ws::{
        CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code,
        rejection::WebSocketUpgradeRejection,
    },
    response::Response,
    routing::get,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time;

use super::{Answer, ApiError, Asker, Server, extract::Query, input};
use crate::catalog::Speech;
use heartbeat::Heartbeat;
use messages::Sent;
use speak::Open;

/// The largest message of a client with recordings, in bytes.
const MESSAGE: usize = 16 << 20;
/// The largest text that may wait, in bytes.
const TEXT: usize = 64 << 10;
/// The largest text of one job, in bytes: hours of speech.
const WHOLE: usize = 4 * TEXT;
/// Sentences that may wait.
const WAITING: usize = 64;
/// Time between two looks for a worker.
const LOOK: Duration = Duration::from_millis(100);
/// Time that a client has to answer the end of a connection.
const FAREWELL: Duration = Duration::from_secs(1);

pub(super) fn routes() -> Router<Arc<Server>> {
    let plain = get(|asker, choice, upgrade| upgraded(asker, choice, upgrade, false));
    // For clients of stream-dia2.
    let framed = get(|asker, choice, upgrade| upgraded(asker, choice, upgrade, true));
    Router::new().route("/v1/realtime", plain).route("/ws/stream_tts", framed)
}

/// The choice of a connection.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Choice {
    /// The model of texts that name none.
    model: Option<String>,
    /// The voice of texts that name none: some clients cannot name one.
    voice: Option<String>,
}

pub(super) type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

/// Upgrades the connection; one of a client of stream-dia2 if it `is_framed`.
pub(super) async fn upgraded(
    asker: Asker,
    Query(Choice { model, voice }): Query<Choice>,
    upgrade: Upgrade,
    is_framed: bool,
) -> Answer<Response> {
    let upgrade = upgrade.map_err(|error| {
        ApiError::new(error.status(), "bad_websocket", error.body_text())
            .hint("open this address as a WebSocket")
    })?;
    let upgrade = upgrade.max_message_size(MESSAGE).max_frame_size(MESSAGE);
    let voice = voice.map(|name| ("voice".to_owned(), Value::from(name)));
    let voice: Map<String, Value> = voice.into_iter().collect();
    let facts = facts(&asker, &with_model(model.as_deref(), voice.clone())).await;
    if let (None, Some(name)) = (&facts, &model) {
        let message = format!("the model of speech `{name}` is not here");
        let status = axum::http::StatusCode::NOT_FOUND;
        let error = ApiError::new(status, "model_not_found", message).param("model");
        return Err(error.hint("GET /v1/audio/models lists them"));
    }
    Ok(upgrade.on_upgrade(move |socket| async move {
        let mut session = Session {
            asker,
            socket,
            model,
            waiting: VecDeque::new(),
            text: String::new(),
            settings: Map::new(),
            voice,
            can_append: facts.as_ref().is_some_and(|(_, speech)| speech.can_append),
            has_ended: false,
            open: None,
            is_framed,
            notices: Vec::new(),
            heartbeat: Heartbeat::default(),
        };
        // The client is gone, or the server ends: both end the session.
        let _ = session.run(facts).await;
        // A client that hears this much sees an end, not a lost connection.
        let _ = time::timeout(FAREWELL, session.close()).await;
    }))
}

/// Returns the model of a request for speech.
async fn facts(server: &Server, request: &Map<String, Value>) -> Option<(String, Speech)> {
    let name = server.model_of_speech(request).await.ok()?;
    let name = name.as_ref().and_then(Value::as_str).map(str::to_owned);
    server.ask(move |catalog| catalog.speech(name.as_deref())).await.ok().flatten()
}

/// Work of a connection.
enum Turn {
    /// A text to speak.
    Say(Map<String, Value>),
    /// A voice to read.
    Voice(Map<String, Value>),
}

impl Turn {
    fn size(&self) -> usize {
        let (Self::Say(fields) | Self::Voice(fields)) = self;
        input::size(fields)
    }
}

/// A connection.
struct Session {
    asker: Asker,
    socket: WebSocket,
    /// The model of texts that name none.
    model: Option<String>,
    /// Work that waits.
    waiting: VecDeque<Turn>,
    /// Text that is not whole yet, or for which no room is in `waiting`.
    text: String,
    /// Settings of texts that come in pieces.
    settings: Map<String, Value>,
    /// The voice of all texts.
    voice: Map<String, Value>,
    /// True if the model of texts in pieces speaks them while they come.
    can_append: bool,
    /// True if the text in pieces is complete.
    has_ended: bool,
    /// The text of the present job, if it may grow.
    open: Option<Open>,
    /// True for a client of stream-dia2.
    is_framed: bool,
    /// Notices about the fields of the present text.
    notices: Vec<String>,
    /// Signs of life of the client.
    heartbeat: Heartbeat,
}

/// The end of a connection.
struct Gone;

impl From<axum::Error> for Gone {
    fn from(_: axum::Error) -> Self {
        Self
    }
}

impl Session {
    async fn run(&mut self, facts: Option<(String, Speech)>) -> Result<(), Gone> {
        if !self.asker.takes_jobs() {
            self.send(json!({ "event": "warming" })).await?;
            while !self.asker.takes_jobs() {
                self.check_end().await?;
                tokio::select! {
                    message = self.receive_idle() => self.take_idle(message).await?,
                    () = time::sleep(LOOK) => {}
                }
            }
        }
        let mut ready = json!({ "event": "ready", "channels": 1, "version": self.asker.version });
        if let Some((model, speech)) = facts {
            ready["model"] = model.into();
            ready["sample_rate"] = speech.sample_rate.into();
        }
        if let Some(why) = self.asker.not_warm() {
            // Another model may be the one of this client.
            ready["notices"] = json!([why]);
        }
        self.send(ready).await?;
        loop {
            self.check_end().await?;
            self.fill();
            let Some(turn) = self.waiting.pop_front() else {
                let over = self.asker.over();
                tokio::select! {
                    message = self.receive_idle() => self.take_idle(message).await?,
                    () = over => {}
                }
                continue;
            };
            match turn {
                Turn::Say(request) => {
                    let mut whole = self.voice.clone();
                    whole.extend(request);
                    self.speak(self.with_model(whole)).await?;
                }
                Turn::Voice(voice) => self.set_voice(voice).await?,
            }
            // Nobody asked it for a sign of life meanwhile.
            self.heartbeat.received();
        }
    }

    /// Takes a message while nothing is spoken.
    async fn take_idle(
        &mut self,
        message: Option<Result<Message, axum::Error>>,
    ) -> Result<(), Gone> {
        if self.take(message).await? {
            self.send(json!({ "event": "cancelled" })).await?;
        }
        Ok(())
    }

    async fn send(&mut self, value: Value) -> Result<(), Gone> {
        self.message(Message::text(value.to_string())).await
    }

    /// Sends a message. Over HTTP/2 the connection does not limit the time in which its client takes it.
    async fn message(&mut self, message: Message) -> Result<(), Gone> {
        let sent = time::timeout(self.asker.limits.answer, self.socket.send(message)).await;
        Ok(sent.map_err(|_| Gone)??)
    }

    /// Ends the connection as WebSockets do: each side says so once, and hears the other.
    async fn close(&mut self) {
        let frame = CloseFrame { code: close_code::NORMAL, reason: "".into() };
        // It fails if one of them said so already.
        let _ = self.socket.send(Message::Close(Some(frame))).await;
        while let Some(Ok(_)) = self.socket.recv().await {}
    }

    /// Closes the connection if the server ends.
    async fn check_end(&mut self) -> Result<(), Gone> {
        if !*self.asker.ending.borrow() {
            return Ok(());
        }
        let frame = CloseFrame { code: close_code::AWAY, reason: "the server ends".into() };
        self.message(Message::Close(Some(frame))).await?;
        Err(Gone)
    }

    async fn error(&mut self, error: ApiError) -> Result<(), Gone> {
        self.send(json!({ "event": "error", "error": error.error })).await
    }

    /// Takes a message of the client; true if it wants to stop.
    async fn take(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<bool, Gone> {
        self.heartbeat.received();
        let text = match message {
            None | Some(Err(_) | Ok(Message::Close(_))) => return Err(Gone),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(false),
            Some(Ok(Message::Binary(_))) => {
                self.error(ApiError::bad("bad_message", "messages are JSON texts")).await?;
                return Ok(false);
            }
            Some(Ok(Message::Text(text))) => text,
        };
        let sent = match Sent::read(&text) {
            Ok(sent) => sent,
            Err(error) => {
                self.error(error).await?;
                return Ok(false);
            }
        };
        match sent {
            Sent::Tts { request } => self.enqueue(Turn::Say(request)).await?,
            Sent::SetVoice { voice } => self.enqueue(Turn::Voice(voice)).await?,
            Sent::Append { text, settings } => self.append(&text, settings).await?,
            Sent::End => self.end(),
            Sent::Ping => self.send(json!({ "event": "pong" })).await?,
            Sent::Pong => {}
            Sent::Close => return Err(Gone),
            Sent::Cancel => {
                self.waiting.clear();
                self.text.clear();
                self.has_ended = false;
                // Later text is not of the text that ends now.
                self.open = None;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes more of a text.
    async fn append(&mut self, text: &str, settings: Map<String, Value>) -> Result<(), Gone> {
        let grows = self.open.as_ref().filter(|open| !open.is_ended);
        let is_whole = grows.is_some_and(|open| open.size + text.len() > WHOLE);
        if is_whole || self.text.len() + text.len() + input::size(&settings) > TEXT {
            let message = "the text has no end of a sentence, or too much of it waits";
            let error = ApiError::bad("too_long", message).hint("wait for `done`");
            return self.error(error).await;
        }
        if !settings.is_empty() {
            self.settings = settings;
            self.settings.remove("sequence");
            self.look_up().await;
        }
        self.text += text;
        self.fill();
        Ok(())
    }

    /// Looks up the model of texts in pieces.
    async fn look_up(&mut self) {
        let mut request = self.voice.clone();
        request.extend(self.settings.clone());
        let facts = facts(&self.asker, &self.with_model(request)).await;
        self.can_append = facts.is_some_and(|(_, speech)| speech.can_append);
    }

    /// Ends a text that came in pieces.
    fn end(&mut self) {
        match &mut self.open {
            Some(open) if !open.is_ended => open.end(&mut self.text),
            _ if self.can_append => self.has_ended = true,
            // The end of a line ends a sentence.
            _ if !self.text.ends_with('\n') => self.text.push('\n'),
            _ => {}
        }
        self.fill();
    }

    /// Moves text that can be spoken to the work that waits, as far as there is room.
    fn fill(&mut self) {
        if !self.can_append {
            let room = WAITING.saturating_sub(self.waiting.len());
            for sentence in sentences::take(&mut self.text, room) {
                let mut request = self.settings.clone();
                request.insert("text".into(), sentence.into());
                self.waiting.push_back(Turn::Say(request));
            }
            return;
        }
        // The present text, or the next one, takes it.
        if self.open.is_some() || !self.waiting.is_empty() {
            return;
        }
        let is_whole = std::mem::take(&mut self.has_ended);
        if let Some(piece) = pieces::take(&mut self.text, is_whole) {
            let mut request = self.settings.clone();
            request.insert("text".into(), piece.into());
            if !is_whole {
                request.insert("append".into(), true.into());
            }
            self.waiting.push_back(Turn::Say(request));
        }
    }

    async fn enqueue(&mut self, turn: Turn) -> Result<(), Gone> {
        if let Turn::Say(request) = &turn
            && request.get("text").and_then(Value::as_str).is_some_and(|text| text.len() > TEXT)
        {
            let error = ApiError::bad("too_long", "the text has more than 64 KiB");
            return self.error(error.hint("send it in pieces")).await;
        }
        let bytes: usize = self.waiting.iter().chain([&turn]).map(Turn::size).sum();
        if self.waiting.len() >= WAITING || bytes > MESSAGE {
            let error = ApiError::bad("too_many", "too many texts wait on this connection");
            return self.error(error.hint("wait for `done`")).await;
        }
        self.waiting.push_back(turn);
        Ok(())
    }

    fn with_model(&self, request: Map<String, Value>) -> Map<String, Value> {
        with_model(self.model.as_deref(), request)
    }
}

/// Adds the model of a connection to a request that names none.
fn with_model(model: Option<&str>, mut request: Map<String, Value>) -> Map<String, Value> {
    if let Some(model) = model {
        request.entry("model").or_insert_with(|| model.into());
    }
    request
}

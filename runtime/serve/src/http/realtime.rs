//! Speech over a WebSocket: text in pieces, sound while it is made.
//!
//! | client | server |
//! |---|---|
//! | | `{"event": "warming"}` until a worker is ready, then `{"event": "ready", "sample_rate": 24000}` |
//! | `{"type": "tts", "text": .., ..}`: fields of a request for speech | `{"event": "job", "id": ..}`, samples, `{"event": "done"}` |
//! | `{"type": "append", "text": ..}` | speaks each sentence as soon as it is complete |
//! | `{"type": "end"}` | speaks the rest; `done` follows |
//! | `{"type": "cancel"}` | stops, and forgets what waits; `{"event": "cancelled"}` |
//!
//! Samples are binary messages: 16-bit integers, little endian, mono. An error is `{"event": "error",
//! "error": {..}}`, and the connection stays open. A slow client is waited for: nothing piles up.

mod sentences;

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{
    Extension, Router,
    extract::{
        State,
        ws::{
            CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code,
            rejection::WebSocketUpgradeRejection,
        },
    },
    response::Response,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time;
use uuid::Uuid;

use super::{ApiError, Caller, Server, Submission, read, stream};
use crate::job::{Kind, State as JobState};

/// The largest message of a client, in bytes.
const MESSAGE: usize = 64 << 10;
/// Sentences that may wait.
const WAITING: usize = 64;
/// Time between two looks for a worker.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new().route("/v1/realtime", read(realtime))
}

/// A message of a client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Sent {
    /// A text to speak, after what waits.
    Tts {
        #[serde(flatten)]
        request: Map<String, Value>,
    },
    /// More of a text.
    Append {
        text: String,
        #[serde(flatten)]
        settings: Map<String, Value>,
    },
    /// The end of a text.
    End,
    /// The wish to stop.
    Cancel,
}

/// Upgrades the connection.
async fn realtime(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade.map_err(|error| {
        ApiError::new(error.status(), "bad_websocket", error.body_text())
            .hint("open this address as a WebSocket")
    })?;
    let upgrade = upgrade.max_message_size(MESSAGE).max_frame_size(MESSAGE);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let mut session = Session {
            server,
            caller,
            socket,
            waiting: VecDeque::new(),
            text: String::new(),
            settings: Map::new(),
        };
        // The client is gone, or the server ends: both end the session.
        let _ = session.run().await;
    }))
}

/// A connection.
struct Session {
    server: Arc<Server>,
    caller: Caller,
    socket: WebSocket,
    /// Requests that wait.
    waiting: VecDeque<Map<String, Value>>,
    /// Text that is not a whole sentence yet, or for which no room is in `waiting`.
    text: String,
    /// Settings of texts that come in pieces.
    settings: Map<String, Value>,
}

/// The end of a connection.
struct Gone;

impl From<axum::Error> for Gone {
    fn from(_: axum::Error) -> Self {
        Self
    }
}

impl Session {
    async fn run(&mut self) -> Result<(), Gone> {
        if !self.server.is_ready.load(Ordering::Relaxed) {
            self.send(json!({ "event": "warming" })).await?;
            while !self.server.is_ready.load(Ordering::Relaxed) {
                self.check_end().await?;
                tokio::select! {
                    message = self.socket.recv() => self.take_idle(message).await?,
                    () = time::sleep(LOOK) => {}
                }
            }
        }
        let rate = acestep_speech::qwen3_tts::SAMPLE_RATE;
        self.send(json!({ "event": "ready", "sample_rate": rate, "channels": 1 })).await?;
        loop {
            self.check_end().await?;
            let Some(request) = self.waiting.pop_front() else {
                let over = self.server.over();
                tokio::select! {
                    message = self.socket.recv() => self.take_idle(message).await?,
                    () = over => {}
                }
                continue;
            };
            self.fill();
            self.speak(request).await?;
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
        Ok(self.socket.send(Message::text(value.to_string())).await?)
    }

    /// Closes the connection if the server ends.
    async fn check_end(&mut self) -> Result<(), Gone> {
        if !*self.server.ending.borrow() {
            return Ok(());
        }
        let frame = CloseFrame { code: close_code::AWAY, reason: "the server ends".into() };
        self.socket.send(Message::Close(Some(frame))).await?;
        Err(Gone)
    }

    async fn error(&mut self, error: ApiError) -> Result<(), Gone> {
        self.send(json!({ "event": "error", "error": error.error })).await
    }

    /// Takes a message of the client; true if it wants to stop.
    async fn take(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<bool, Gone> {
        let text = match message {
            None | Some(Err(_) | Ok(Message::Close(_))) => return Err(Gone),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(false),
            Some(Ok(Message::Binary(_))) => {
                self.error(ApiError::bad("bad_message", "messages are JSON texts")).await?;
                return Ok(false);
            }
            Some(Ok(Message::Text(text))) => text,
        };
        let sent = match serde_json::from_str(&text) {
            Ok(sent) => sent,
            Err(error) => {
                let message = format!("the message cannot be read: {error}");
                let error = ApiError::bad("bad_message", message)
                    .hint(r#"send {"type": "tts", "text": "Good morning."}"#);
                self.error(error).await?;
                return Ok(false);
            }
        };
        match sent {
            Sent::Tts { request } => self.enqueue(request).await?,
            Sent::Append { text, settings } => {
                if !settings.is_empty() {
                    self.settings = settings;
                    self.settings.remove("sequence");
                }
                if self.text.len() + text.len() > MESSAGE {
                    let message = "the text has no end of a sentence, or too much of it waits";
                    let error = ApiError::bad("too_long", message).hint("wait for `done`");
                    self.error(error).await?;
                    return Ok(false);
                }
                self.text += &text;
                self.fill();
            }
            Sent::End => {
                // The end of a line ends a sentence.
                if !self.text.ends_with('\n') {
                    self.text.push('\n');
                }
                self.fill();
            }
            Sent::Cancel => {
                self.waiting.clear();
                self.text.clear();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves whole sentences to the texts that wait, as far as there is room.
    fn fill(&mut self) {
        let room = WAITING.saturating_sub(self.waiting.len());
        for sentence in sentences::take(&mut self.text, room) {
            let mut request = self.settings.clone();
            request.insert("text".into(), sentence.into());
            self.waiting.push_back(request);
        }
    }

    async fn enqueue(&mut self, request: Map<String, Value>) -> Result<(), Gone> {
        if self.waiting.len() >= WAITING {
            let error = ApiError::bad("too_many", "too many texts wait on this connection");
            return self.error(error.hint("wait for `done`")).await;
        }
        self.waiting.push_back(request);
        Ok(())
    }

    /// Speaks one text, and takes messages meanwhile.
    async fn speak(&mut self, request: Map<String, Value>) -> Result<(), Gone> {
        let submission = Submission { priority: 1, ..Submission::default() };
        let submitted = self.server.submit(&self.caller, Kind::Speak, request, submission).await;
        let id = match submitted {
            Ok(put) => put.job.id,
            Err(error) => return self.error(error).await,
        };
        self.send(json!({ "event": "job", "id": id })).await?;
        let result = self.follow(id).await;
        if result.is_err() {
            // The client is gone: nobody hears the rest.
            if let Err(error) = self.server.store.cancel(id).await {
                tracing::warn!(%error, "the job of a lost client goes on");
            }
        }
        result
    }

    async fn follow(&mut self, id: Uuid) -> Result<(), Gone> {
        // Later texts do not undo a wish to stop.
        let mut is_stopped = false;
        let following = stream::follow(self.server.clone(), self.caller.clone(), id);
        let mut following = Box::pin(following);
        let mut sound = loop {
            tokio::select! {
                sound = &mut following => match sound {
                    Ok(sound) => break sound,
                    Err(error) => return self.without_sound(id, is_stopped, error).await,
                },
                message = self.socket.recv() => {
                    if self.take(message).await? {
                        is_stopped = true;
                        self.stop(id).await;
                    }
                }
            }
        };
        drop(following);
        loop {
            // A message that came is taken before more sound is sent.
            let next = tokio::select! {
                biased;
                message = self.socket.recv() => {
                    if self.take(message).await? {
                        is_stopped = true;
                        self.stop(id).await;
                    }
                    continue;
                }
                next = sound.next() => next,
            };
            match next {
                Ok(Some(bytes)) if !is_stopped => {
                    self.socket.send(Message::Binary(bytes)).await?;
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    let error = ApiError::new(
                        axum::http::StatusCode::INTERNAL_SERVER_ERROR,
                        "failed",
                        error.to_string(),
                    );
                    return self.without_sound(id, is_stopped, error).await;
                }
            }
        }
        let job = self.server.job(&self.caller, id).await;
        match job {
            // Sound may be missing, even if the job was done before it could stop.
            Ok(_) if is_stopped => self.cancelled(id).await,
            Ok(job) if job.state == JobState::Cancelled => self.cancelled(id).await,
            Ok(job) => {
                let seed = job.resolved.as_ref().map(|resolved| resolved["seed"].clone());
                let done = json!({
                    "event": "done", "id": id, "seed": seed, "notices": job.notices,
                });
                self.send(done).await
            }
            Err(error) => self.error(error).await,
        }
    }

    /// Tells why the sound of a job ends early.
    async fn without_sound(
        &mut self,
        id: Uuid,
        is_stopped: bool,
        error: ApiError,
    ) -> Result<(), Gone> {
        self.check_end().await?;
        let is_cancelled = || async {
            let job = self.server.job(&self.caller, id).await;
            job.is_ok_and(|job| job.state == JobState::Cancelled)
        };
        if is_stopped || is_cancelled().await {
            return self.cancelled(id).await;
        }
        self.error(error).await
    }

    async fn cancelled(&mut self, id: Uuid) -> Result<(), Gone> {
        self.send(json!({ "event": "cancelled", "id": id })).await
    }

    async fn stop(&mut self, id: Uuid) {
        if let Err(error) = self.server.store.cancel(id).await {
            tracing::warn!(%error, "a job cannot be cancelled");
        }
    }
}

//! Speech over a WebSocket: text in pieces, sound while it is made.
//!
//! | client | server |
//! |---|---|
//! | | `{"event": "warming"}` until a worker is ready, then `{"event": "ready", "sample_rate": 24000}` |
//! | `{"type": "tts", "text": .., ..}`: fields of a request for speech | `{"event": "job", "id": ..}`, samples, `{"event": "done"}` |
//! | `{"type": "append", "text": ..}` | speaks each sentence as soon as it is complete |
//! | `{"type": "end"}` | speaks the rest; `done` follows |
//! | `{"type": "cancel"}` | stops; `{"event": "cancelled"}` |
//!
//! Samples are binary messages: 16-bit integers, little endian, mono. An error is `{"event": "error",
//! "error": {..}}`, and the connection stays open. A slow client is waited for: nothing piles up.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{
    Extension, Router,
    extract::{
        State,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
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
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade.max_message_size(MESSAGE).max_frame_size(MESSAGE).on_upgrade(move |socket| async move {
        let mut session = Session {
            server,
            caller,
            socket,
            waiting: VecDeque::new(),
            text: String::new(),
            settings: Map::new(),
            is_over: false,
        };
        // The client is gone, or the server ends: both end the session.
        let _ = session.run().await;
    })
}

/// A connection.
struct Session {
    server: Arc<Server>,
    caller: Caller,
    socket: WebSocket,
    /// Requests that wait.
    waiting: VecDeque<Map<String, Value>>,
    /// Text that is not a whole sentence yet.
    text: String,
    /// Settings of texts that come in pieces.
    settings: Map<String, Value>,
    is_over: bool,
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
                time::sleep(LOOK).await;
            }
        }
        let rate = acestep_speech::SAMPLE_RATE;
        self.send(json!({ "event": "ready", "sample_rate": rate, "channels": 1 })).await?;
        loop {
            match self.waiting.pop_front() {
                Some(request) => self.speak(request).await?,
                None => {
                    let mut ending = self.server.ending.clone();
                    tokio::select! {
                        message = self.socket.recv() => self.take(message).await?,
                        _ = ending.changed() => self.check_end().await?,
                    }
                }
            }
        }
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
    async fn take(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<(), Gone> {
        let text = match message {
            None | Some(Err(_) | Ok(Message::Close(_))) => return Err(Gone),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
            Some(Ok(Message::Binary(_))) => {
                return self.error(ApiError::bad("bad_message", "messages are JSON texts")).await;
            }
            Some(Ok(Message::Text(text))) => text,
        };
        let sent = match serde_json::from_str(&text) {
            Ok(sent) => sent,
            Err(error) => {
                let message = format!("the message cannot be read: {error}");
                let error = ApiError::bad("bad_message", message)
                    .hint(r#"send {"type": "tts", "text": "Good morning."}"#);
                return self.error(error).await;
            }
        };
        match sent {
            Sent::Tts { request } => self.enqueue(request).await,
            Sent::Append { text, settings } => {
                if !settings.is_empty() {
                    self.settings = settings;
                    self.settings.remove("sequence");
                }
                if self.text.len() + text.len() > MESSAGE {
                    let error = ApiError::bad("too_long", "the text has no end of a sentence");
                    return self.error(error).await;
                }
                self.text += &text;
                let whole = sentences(&mut self.text);
                for sentence in whole {
                    self.enqueue_text(sentence).await?;
                }
                Ok(())
            }
            Sent::End => {
                let rest = std::mem::take(&mut self.text);
                if !rest.trim().is_empty() {
                    self.enqueue_text(rest).await?;
                }
                Ok(())
            }
            Sent::Cancel => {
                self.waiting.clear();
                self.text.clear();
                self.is_over = true;
                Ok(())
            }
        }
    }

    async fn enqueue_text(&mut self, text: String) -> Result<(), Gone> {
        let mut request = self.settings.clone();
        request.insert("text".into(), text.trim().into());
        self.enqueue(request).await
    }

    async fn enqueue(&mut self, request: Map<String, Value>) -> Result<(), Gone> {
        if self.waiting.len() >= WAITING {
            let error = ApiError::bad("too_many", "too many texts wait on this connection");
            return self.error(error.hint("wait for `done`")).await;
        }
        self.is_over = false;
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
        let following = stream::follow(self.server.clone(), self.caller.clone(), id);
        let mut following = Box::pin(following);
        let mut sound = loop {
            tokio::select! {
                sound = &mut following => match sound {
                    Ok(sound) => break sound,
                    Err(_) if self.is_over => return self.cancelled(id).await,
                    Err(error) => return self.error(error).await,
                },
                message = self.socket.recv() => {
                    self.take(message).await?;
                    self.cancel_if_wanted(id).await;
                }
            }
        };
        drop(following);
        loop {
            // A message that came is taken before more sound is sent.
            let next = tokio::select! {
                biased;
                message = self.socket.recv() => {
                    self.take(message).await?;
                    self.cancel_if_wanted(id).await;
                    continue;
                }
                next = sound.next() => next,
            };
            match next {
                Ok(Some(bytes)) if !self.is_over => {
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
                    return self.error(error).await;
                }
            }
        }
        let job = self.server.job(&self.caller, id).await;
        match job {
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

    async fn cancelled(&mut self, id: Uuid) -> Result<(), Gone> {
        self.is_over = false;
        self.send(json!({ "event": "cancelled", "id": id })).await
    }

    async fn cancel_if_wanted(&mut self, id: Uuid) {
        if self.is_over
            && let Err(error) = self.server.store.cancel(id).await
        {
            tracing::warn!(%error, "a job cannot be cancelled");
        }
    }
}

/// Takes the whole sentences out of a text. A sentence ends with a mark and a blank, or with the end of
/// a line.
fn sentences(text: &mut String) -> Vec<String> {
    let mut whole = Vec::new();
    let mut begin = 0;
    let mut marked = false;
    for (index, letter) in text.char_indices() {
        let end = index + letter.len_utf8();
        // Chinese and Japanese marks need no blank.
        let is_end = (marked && letter.is_whitespace())
            || letter == '\n'
            || matches!(letter, '。' | '！' | '？');
        if is_end {
            let sentence = text[begin..end].trim();
            if !sentence.is_empty() {
                whole.push(sentence.to_owned());
            }
            begin = end;
        }
        marked = matches!(letter, '.' | '!' | '?' | '…')
            || (marked && matches!(letter, '"' | '\'' | '”' | '’' | ')'));
    }
    text.drain(..begin);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_spoken_when_a_blank_follows_its_mark() {
        let mut text = "It costs 3.50 euros. \"Really?\" she asked".to_owned();
        assert_eq!(sentences(&mut text), ["It costs 3.50 euros.", "\"Really?\""]);
        assert_eq!(text, "she asked");
        text += ".\nNext";
        assert_eq!(sentences(&mut text), ["she asked."]);
        assert_eq!(text, "Next");
        let mut text = "你好。再见".to_owned();
        assert_eq!(sentences(&mut text), ["你好。"]);
        assert_eq!(text, "再见");
    }
}

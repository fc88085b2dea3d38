//! A text of a connection: a job whose samples are sent while they are made, and whose text may grow.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    Gone, Message, Session, facts, pieces,
    stream_dia2::{self, Marked},
};
use crate::{
    arriving::TextPart,
    http::{
        ApiError, Submission,
        stream::{self, Sound},
    },
    job::{Job, JobError, Kind, State as JobState},
    worker,
};

/// Text of a job that may grow.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// The pieces after the first.
    pieces: Vec<String>,
    /// Their bytes.
    pub(super) size: usize,
    /// The number of these pieces that the run can read.
    written: usize,
    /// True if no more will come.
    pub(super) is_ended: bool,
    /// True if it can read the end too.
    is_closed: bool,
}

impl Open {
    fn take(&mut self, text: &mut String, is_end: bool) {
        let piece = pieces::take(text, is_end);
        self.size += piece.as_ref().map_or(0, String::len);
        self.pieces.extend(piece);
    }

    /// Takes all of the text, as its end.
    pub(super) fn end(&mut self, text: &mut String) {
        self.take(text, true);
        self.is_ended = true;
    }
}

impl Session {
    /// Puts a job into the queue, before the jobs of other clients.
    pub(super) async fn submit(
        &mut self,
        kind: Kind,
        request: Map<String, Value>,
    ) -> Result<Uuid, ApiError> {
        let submission = Submission { priority: 1, ..Submission::default() };
        let put = self.asker.submit(kind, request, submission).await?;
        Ok(put.job.id)
    }

    /// Speaks one text, and takes messages meanwhile.
    pub(super) async fn speak(&mut self, mut request: Map<String, Value>) -> Result<(), Gone> {
        let may_grow = request.get("append") == Some(&Value::Bool(true));
        let facts = facts(&self.asker, &request).await.map(|(_, speech)| speech);
        self.notices.clear();
        if let Some(speech) = &facts {
            if self.is_framed {
                self.notices = stream_dia2::fit(&mut request, &speech.fields);
            }
            if speech.can_append {
                // Such a model is as late as its frames: each is sent when it is there.
                request.entry("chunk_frames").or_insert_with(|| 1.into());
            }
        }
        let frames = request.get("chunk_frames").and_then(Value::as_u64).unwrap_or(1);
        let id = match self.submit(Kind::Speak, request).await {
            Ok(id) => id,
            Err(error) => return self.error(error).await,
        };
        let rate = facts.map(|speech| speech.sample_rate);
        self.send(json!({ "event": "job", "id": id, "sample_rate": rate })).await?;
        self.open = may_grow.then(Open::default);
        if let Some(open) = self.open.as_mut().filter(|_| self.has_ended) {
            self.has_ended = false;
            open.end(&mut self.text);
        }
        let result = self.follow(id, frames as usize).await;
        self.open = None;
        if result.is_err() {
            // The client is gone: nobody hears the rest.
            if let Err(error) = self.asker.store.cancel(id).await {
                tracing::warn!(%id, %error, "the job of a lost client goes on");
            }
        }
        result
    }

    /// Sends the text that came to a job that may grow.
    async fn grow(&mut self, sound: &Sound) -> Result<(), ApiError> {
        let Some(open) = self.open.as_mut().filter(|open| !open.is_closed) else { return Ok(()) };
        if !open.is_ended {
            open.take(&mut self.text, false);
        }
        let (at, texts) = (open.written, open.pieces[open.written..].to_vec());
        if texts.is_empty() && !open.is_ended {
            return Ok(());
        }
        open.written = open.pieces.len();
        open.is_closed = open.is_ended;
        let part = TextPart { at, texts, is_end: open.is_ended };
        let sent = sound.send_text(part).await;
        sent.map_err(|error| {
            let message = format!("the text cannot be sent: {}", worker::reason(&error));
            ApiError::from(JobError { message, ..worker::of_files(&error) })
        })
    }

    /// Puts text back that came after the end of a job.
    fn take_back(&mut self, job: Option<&Job>) {
        let Some(open) = self.open.take() else { return };
        let resolved = job.and_then(|job| job.resolved.as_ref());
        let taken = resolved.and_then(|resolved| resolved["appended"].as_u64()).unwrap_or(0);
        let left: String = open.pieces.iter().skip(taken as usize).map(String::as_str).collect();
        self.text.insert_str(0, &left);
        self.has_ended = open.is_ended && !self.text.trim().is_empty();
    }

    /// Sends the samples of a job, whose chunks have `frames` frames.
    async fn follow(&mut self, id: Uuid, frames: usize) -> Result<(), Gone> {
        // Later texts do not undo a wish to stop.
        let mut is_stopped = false;
        let following = stream::follow(self.asker.clone(), id);
        let mut following = Box::pin(following);
        let mut sound = loop {
            tokio::select! {
                sound = &mut following => match sound {
                    Ok(sound) => break sound,
                    Err(error) => return self.without_sound(id, is_stopped, error).await,
                },
                message = self.socket.recv() => is_stopped |= self.take_beside(id, message).await?,
            }
        };
        drop(following);
        let mut chunks = 0u64;
        let mut marked = self.is_framed.then(|| Marked::new(sound.format, frames));
        loop {
            if let Err(error) = self.grow(&sound).await {
                return self.without_sound(id, is_stopped, error).await;
            }
            // A message that came is taken before more sound is sent.
            let next = tokio::select! {
                biased;
                message = self.socket.recv() => {
                    is_stopped |= self.take_beside(id, message).await?;
                    continue;
                }
                next = sound.next() => next,
            };
            match next {
                Ok(Some(bytes)) if !is_stopped => {
                    let messages = match &mut marked {
                        Some(marked) => marked.add(&bytes, sound.goes_on().await),
                        None => vec![bytes.to_vec()],
                    };
                    for message in messages {
                        chunks += 1;
                        self.samples(message).await?;
                    }
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
        let job = self.asker.job(id).await;
        if !is_stopped {
            self.take_back(job.as_ref().ok());
        }
        match job {
            // Sound may be missing, even if the job was done before it could stop.
            Ok(_) if is_stopped => self.cancelled(id).await,
            Ok(job) => {
                if let Some(marked) = marked {
                    chunks += 1;
                    self.samples(marked.last()).await?;
                }
                let notices = [std::mem::take(&mut self.notices), job.notices].concat();
                let mut done = json!({
                    "event": "done", "id": id, "chunks": chunks, "notices": notices,
                });
                for field in ["seed", "frames", "reason"] {
                    done[field] =
                        job.resolved.as_ref().map(|resolved| resolved[field].clone()).into();
                }
                self.send(done).await
            }
            Err(error) => self.error(error).await,
        }
    }

    /// Sends samples.
    async fn samples(&mut self, message: Vec<u8>) -> Result<(), Gone> {
        self.heartbeat.plays(message.len());
        self.message(Message::Binary(message.into())).await
    }

    /// Tells why the sound of a job ends early.
    async fn without_sound(
        &mut self,
        id: Uuid,
        is_stopped: bool,
        error: ApiError,
    ) -> Result<(), Gone> {
        self.check_end().await?;
        let job = self.asker.job(id).await.ok();
        let is_cancelled = job.as_ref().is_some_and(|job| job.state == JobState::Cancelled);
        if !is_stopped && (is_cancelled || error.error.code == "no_sound") {
            // Without sound no more text was sent: the run had the first piece alone.
            self.take_back(job.as_ref());
        }
        if is_stopped || is_cancelled {
            return self.cancelled(id).await;
        }
        // The error of the sound has the message alone.
        let failed = job.and_then(|job| job.error).map(ApiError::from);
        self.error(failed.unwrap_or(error)).await
    }

    pub(super) async fn cancelled(&mut self, id: Uuid) -> Result<(), Gone> {
        self.send(json!({ "event": "cancelled", "id": id })).await
    }

    /// Takes a message of the client beside a job, which stops if the client wants it. True if it does.
    async fn take_beside(
        &mut self,
        id: Uuid,
        message: Option<Result<Message, axum::Error>>,
    ) -> Result<bool, Gone> {
        let is_stopped = self.take(message).await?;
        if is_stopped {
            self.stop(id).await;
        }
        Ok(is_stopped)
    }

    pub(super) async fn stop(&mut self, id: Uuid) {
        if let Err(error) = self.asker.store.cancel(id).await {
            tracing::warn!(%id, %error, "a job cannot be cancelled");
        }
    }
}

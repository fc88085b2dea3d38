//! The voice of a connection: recordings that are read once, before the first text.

use std::time::Duration;

use acestep_session::speech::FILES;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Gone, Session, facts, stream_dia2};
use crate::{
    http::{ApiError, input},
    job::{Kind, State as JobState},
    maintenance,
};

/// Time between two looks at the end of a job, if nothing tells it.
const LOOK: Duration = Duration::from_secs(5);

/// The field of a model whose state after recordings can be kept.
const SNAPSHOT: &str = "snapshot";

impl Session {
    /// Takes a voice for all later texts, and says when its state is in memory.
    pub(super) async fn set_voice(&mut self, voice: Map<String, Value>) -> Result<(), Gone> {
        let mut made = Vec::new();
        let taken = match self.stored(voice, &mut made).await {
            Ok(voice) => self.take_voice(voice).await,
            Err(error) => self.error(error).await.map(|()| false),
        };
        if !matches!(taken, Ok(true)) {
            self.remove(made).await;
        }
        taken.map(drop)
    }

    async fn remove(&mut self, ids: Vec<Uuid>) {
        let (store, objects) = (&*self.asker.store, &self.asker.objects);
        let removed = async {
            let mut files = Vec::new();
            for id in ids {
                files.extend(store.file(id).await?);
            }
            // A job that stops may still read one: that one goes with old files.
            maintenance::remove_files(store, objects, files).await
        };
        if let Err(error) = removed.await {
            tracing::warn!(%error, "recordings of a refused voice stay");
        }
    }

    /// Takes a voice whose recordings are stored; false if it was refused, and the client knows it.
    async fn take_voice(&mut self, mut voice: Map<String, Value>) -> Result<bool, Gone> {
        let facts = facts(&self.asker, &self.with_model(voice.clone())).await;
        let fields = facts.map(|(_, speech)| speech.fields).unwrap_or_default();
        let mut notices = match self.is_framed {
            true => stream_dia2::known_alone(&mut voice, &fields),
            false => Vec::new(),
        };
        let is_file = |field: &str| FILES.contains(&field);
        if fields.iter().any(|field| field == SNAPSHOT) && voice.keys().any(|field| is_file(field))
        {
            // The state after the recordings serves every text.
            voice.entry(SNAPSHOT).or_insert(Value::Bool(true));
        }
        if !voice.is_empty() {
            let mut request = self.with_model(voice.clone());
            request.insert("voice_only".into(), true.into());
            match self.read_voice(request).await? {
                Some(more) => notices.extend(more),
                None => return Ok(false),
            }
        }
        let mut ready = json!({ "event": "voice_ready" });
        if !notices.is_empty() {
            ready["notices"] = notices.into();
        }
        for field in fields.iter().filter(|field| is_file(field) || *field == "voice") {
            ready[field] = voice.contains_key(field).into();
        }
        self.voice = voice;
        self.look_up().await;
        self.send(ready).await?;
        Ok(true)
    }

    /// Stores the recordings of a message, which are base64, `data:` addresses or ids of files. The ids of
    /// new files are added to `made`.
    async fn stored(
        &mut self,
        voice: Map<String, Value>,
        made: &mut Vec<Uuid>,
    ) -> Result<Map<String, Value>, ApiError> {
        let mut stored = Map::new();
        for (field, value) in voice {
            // The content of a file tells its format.
            if value.is_null() || field == "clear" || field.starts_with("format_") {
                continue;
            }
            let value = match value {
                Value::String(text) if FILES.contains(&&*field) => {
                    let is_id = Uuid::parse_str(&text).is_ok();
                    let id = match is_id || text.starts_with("data:") {
                        true => input::sound(&self.asker, &field, text).await?,
                        false => input::base64(&self.asker, &field, text).await?,
                    };
                    if !is_id {
                        made.extend(Uuid::parse_str(&id));
                    }
                    Value::String(id)
                }
                other => other,
            };
            stored.insert(field, value);
        }
        Ok(stored)
    }

    /// Brings a voice into the memory of a worker. Returns the notices about it, or `None` if it is not
    /// there.
    async fn read_voice(
        &mut self,
        request: Map<String, Value>,
    ) -> Result<Option<Vec<String>>, Gone> {
        let submitted = self.submit(Kind::Speak, request).await;
        let id = match submitted {
            Ok(id) => id,
            Err(error) => {
                self.error(error).await?;
                return Ok(None);
            }
        };
        self.send(json!({ "event": "warming", "message": "the voice is read", "id": id })).await?;
        let mut is_stopped = false;
        loop {
            self.check_end().await?;
            let asker = self.asker.clone();
            let job = tokio::select! {
                job = asker.wait(id, LOOK) => job,
                message = self.socket.recv() => {
                    match self.take(message).await {
                        Ok(false) => {}
                        Ok(true) => {
                            is_stopped = true;
                            self.stop(id).await;
                        }
                        // Nobody waits for the voice, and nothing more will come.
                        Err(Gone) => {
                            self.stop(id).await;
                            return Err(Gone);
                        }
                    }
                    continue;
                }
            };
            let job = match job {
                Ok(job) if job.state.is_ended() => job,
                Ok(_) => continue,
                Err(error) => {
                    self.error(error).await?;
                    return Ok(None);
                }
            };
            match (job.state, job.error) {
                (JobState::Done, _) if !is_stopped => return Ok(Some(job.notices)),
                (JobState::Failed, Some(error)) => self.error(error.into()).await?,
                _ => self.cancelled(id).await?,
            }
            return Ok(None);
        }
    }
}

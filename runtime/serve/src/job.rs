//! Jobs: the unit of work of the server, as stored and as shown to clients.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr, VariantArray};
use utoipa::ToSchema;
use uuid::Uuid;

/// Milliseconds since 1970.
pub type Millis = i64;

/// A task that a worker can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[derive(EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// A request for songs to songs.
    Generate,
    /// A text to speech.
    Speak,
    /// A song to its description and audio codes.
    Understand,
    /// A request to one that the language model completed.
    Compose,
    /// Sound to latents.
    Encode,
    /// Latents to sound.
    Decode,
    /// Recordings to a kept voice.
    Voice,
}

impl Kind {
    /// Every kind.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The name in requests and in the queue.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[derive(EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum State {
    /// Waits for a worker.
    Queued,
    /// A worker runs it.
    Running,
    /// A worker runs it, and was asked to stop.
    Cancelling,
    /// Its results are complete.
    Done,
    /// It ended with an error.
    Failed,
    /// It was stopped by its client.
    Cancelled,
}

impl State {
    /// The name in answers and in the queue.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// True if nothing more will happen to the job.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// A job that a client submits.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// The task.
    pub kind: Kind,
    /// The model that must be in memory, for the choice of a worker.
    pub model: Option<String>,
    /// The request as the client sent it.
    pub request: Value,
    /// The client: the name of its key.
    pub owner: String,
    /// A second job with the same key of the same owner is the first one.
    pub idempotency_key: Option<String>,
    /// Hashes of the request as it was sent with that key. Two equal requests share at least one.
    pub fingerprints: Vec<String>,
    /// Higher runs earlier.
    pub priority: i64,
    /// A title for people.
    pub title: Option<String>,
    /// Notices that the client should see.
    pub notices: Vec<String>,
}

impl NewJob {
    /// A job without a key, a title or notices.
    pub fn new(kind: Kind, model: Option<String>, request: Value, owner: &str) -> Self {
        Self {
            kind,
            model,
            request,
            owner: owner.to_owned(),
            idempotency_key: None,
            fingerprints: Vec::new(),
            priority: 0,
            title: None,
            notices: Vec::new(),
        }
    }

    /// The job as it is stored first.
    pub(crate) fn stored(self, id: Uuid, created: Millis) -> Job {
        Job {
            id,
            kind: self.kind,
            model: self.model,
            state: State::Queued,
            request: self.request,
            resolved: None,
            owner: self.owner,
            fingerprints: self.fingerprints,
            priority: self.priority,
            created,
            started: None,
            ended: None,
            attempts: 0,
            worker: None,
            lease_until: None,
            progress: Progress::default(),
            notices: self.notices,
            error: None,
            outputs: Vec::new(),
            title: self.title,
            liked: false,
            tags: Vec::new(),
            deleted: None,
        }
    }
}

/// A job, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Job {
    /// Its id, a UUID of version 7.
    pub id: Uuid,
    /// The task.
    pub kind: Kind,
    /// The model that it asks for.
    pub model: Option<String>,
    /// The state.
    pub state: State,
    /// The request as the client sent it.
    pub request: Value,
    /// The request with all decisions, when they are known.
    pub resolved: Option<Value>,
    /// The client.
    #[serde(skip)]
    pub owner: String,
    /// Hashes of the request as it was sent with an idempotency key.
    #[serde(skip)]
    pub fingerprints: Vec<String>,
    /// Higher runs earlier.
    pub priority: i64,
    /// When it was accepted, in milliseconds since 1970.
    pub created: Millis,
    /// When a worker last began it.
    pub started: Option<Millis>,
    /// When it ended.
    pub ended: Option<Millis>,
    /// Number of times that a worker began it. It only grows.
    pub attempts: u32,
    /// The worker that runs it or ran it.
    pub worker: Option<String>,
    /// End of the worker's lease.
    #[serde(skip)]
    pub lease_until: Option<Millis>,
    /// Its progress.
    pub progress: Progress,
    /// Messages about values that were chosen or changed.
    pub notices: Vec<String>,
    /// The reason of a failure.
    pub error: Option<JobError>,
    /// The results.
    pub outputs: Vec<Output>,
    /// A title for people.
    pub title: Option<String>,
    /// True if someone likes it.
    pub liked: bool,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// When it was put away; it can still be restored for a while.
    pub deleted: Option<Millis>,
}

/// The progress of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// The stage, in words.
    pub stage: String,
    /// The unit of its steps.
    pub unit: String,
    /// Steps done.
    pub done: u64,
    /// All steps; for speech an upper bound.
    pub total: u64,
    /// Seconds until the end of the job, if jobs of this task and model were done here before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_s: Option<u64>,
}

/// The reason of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobError {
    /// A word for programs, e.g. `out_of_memory`.
    pub code: String,
    /// The reason, in words.
    pub message: String,
    /// The field of the request that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// A solution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl JobError {
    /// An error with a word and a message.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), param: None, hint: None }
    }

    pub(crate) fn worker_lost(losses: u32) -> Self {
        let hint = "the job may need more memory than the machine has; see the worker's log";
        Self::new("worker_lost", format!("its worker was lost {losses} times")).hint(hint)
    }

    /// The reason and its solution in one line.
    pub(crate) fn line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// Adds a solution.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Names the field of the request that is wrong.
    #[must_use]
    pub fn param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }
}

/// The content of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// A sound file.
    Audio,
    /// Times of the lines, as LRC or WebVTT.
    Lrc,
    /// Times of the words: a list as JSON, or SRT, or WebVTT.
    Words,
    /// Scores of a song, as JSON.
    Score,
    /// Audio codes, as text.
    Codes,
    /// Latents, as raw f32 of 64 channels.
    Latents,
    /// The complete request, as JSON.
    Request,
    /// A description of a song, as JSON.
    Description,
    /// Smallest and largest samples for a picture of the waveform, as JSON.
    Peaks,
    /// A picture of the waveform and its lines, as PNG.
    Plot,
    /// The answer of the language model, word for word.
    Text,
    /// The transformer's conditions and the initial noise, as safetensors.
    Conditioning,
}

/// A result: a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Output {
    /// The song of the job, from 1.
    pub track: u32,
    /// The content.
    pub content: Content,
    /// The name in the job's folder, unique within the job.
    pub name: String,
    /// The media type.
    pub media_type: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The SHA-256 in hexadecimal.
    pub sha256: String,
    /// The seed of the song.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The length of the sound in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Location in the folder of results.
    #[serde(default)]
    #[schema(ignore)]
    pub key: String,
}

/// A result that a runner wrote into the job's folder.
#[derive(Debug, Clone)]
pub struct RunOutput {
    /// The song of the job, from 1.
    pub track: u32,
    /// The content.
    pub content: Content,
    /// The name in the folder.
    pub name: String,
    /// The seed of the song.
    pub seed: Option<u64>,
    /// The length of the sound in seconds.
    pub seconds: Option<f64>,
}

/// An event of a job. `n` counts from 1 within the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobEvent {
    /// Its number.
    pub n: u64,
    /// `state`, `progress`, `notice`, `audio`, `track` or `end`.
    pub name: String,
    /// Its content.
    pub data: Value,
}

/// Returns a length in milliseconds: at most a quarter of the longest one, so that no sum overflows.
pub(crate) fn millis(length: std::time::Duration) -> Millis {
    Millis::try_from(length.as_millis()).unwrap_or(Millis::MAX / 4)
}

/// Returns the present time.
pub fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

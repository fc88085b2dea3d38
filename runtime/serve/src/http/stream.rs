//! Sound while it is made, as a stream of samples.

use std::{
    io,
    path::{self, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::{Stream, stream};
use serde::Deserialize;
use tokio::{
    fs::File,
    io::AsyncReadExt,
    time::{self, Instant},
};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    ApiError, Caller, Server,
    extract::{Path, Query},
    growth::Watched,
    hub::Listener,
    read, wav,
};
use crate::{
    job::{Job, State as JobState},
    preview::{self, PreviewFormat},
    store::Lease,
};

/// Shortest time between two looks for a folder that the worker is about to make.
const SOON: Duration = Duration::from_millis(5);
/// Longest time between two looks at a file and two questions to the queue, if neither tells a change.
const ASK: Duration = Duration::from_millis(250);
/// The most bytes of one piece.
const PIECE: usize = 32 << 10;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new().route("/v1/jobs/{id}/audio", read(audio))
}

/// Sound on its way.
pub(super) struct Sound {
    pub(super) format: PreviewFormat,
    server: Arc<Server>,
    caller: Caller,
    id: Uuid,
    changes: Listener,
    /// The folder of the attempt.
    folder: PathBuf,
    /// Changes of the folder; none if the system tells none.
    watch: Option<Watched>,
    file: File,
    attempt: u32,
    /// The time of the last question to the queue; none if the job changed since then.
    asked: Option<Instant>,
    is_over: bool,
}

/// Waits for the first samples of a job, and follows them.
///
/// # Errors
/// As [`Server::job`]; 409 if the job ended without sound; 503 if the server ends.
pub(super) async fn follow(
    server: Arc<Server>,
    caller: Caller,
    id: Uuid,
) -> Result<Sound, ApiError> {
    // Listen first, so that no change is missed.
    let mut changes = server.hub.listen(&server.store, id);
    let mut over = pin!(server.over());
    // The attempt that is looked for, and its folder.
    let mut watched: (u32, Option<Watched>) = (0, None);
    let mut pause = SOON;
    loop {
        let job = server.job(&caller, id).await?;
        let asked = Instant::now();
        if watched.0 != job.attempts {
            watched = (job.attempts, None);
            pause = SOON;
        }
        // The file is looked for often, the queue is asked seldom.
        loop {
            if let Some(lease) = lease(&job).filter(|_| watched.1.is_none()) {
                let folder = server.objects.attempt_folder(&lease);
                // Watched before the look, so that no change is missed.
                watched.1 = server.growth.watch(&folder);
            }
            if let Some((format, file, folder)) = opened(&server, &job).await {
                let (attempt, watch) = watched;
                let (asked, is_over) = (Some(asked), false);
                return Ok(Sound {
                    format,
                    server,
                    caller,
                    id,
                    changes,
                    folder,
                    watch,
                    file,
                    attempt,
                    asked,
                    is_over,
                });
            }
            if job.state.is_ended() {
                return Err(without_sound(job));
            }
            let is_made = watched.1.is_some();
            let wait = if is_made { ASK } else { pause };
            tokio::select! {
                () = changes.changed() => break,
                () = &mut over => return Err(ending()),
                () = grown(&mut watched.1) => {}
                // A job that waits has no file: its change is told.
                () = time::sleep(wait), if job.state != JobState::Queued => {}
            }
            pause = (pause * 2).min(ASK);
            if asked.elapsed() >= ASK {
                break;
            }
        }
    }
}

/// Waits for a change of a folder; for ever if it tells none.
async fn grown(folder: &mut Option<Watched>) {
    match folder {
        Some(folder) => folder.changed().await,
        None => std::future::pending().await,
    }
}

/// The reason why a job that ended has no sound to follow.
fn without_sound(job: Job) -> ApiError {
    if let Some(error) = job.error {
        return ApiError::from(error);
    }
    let message = "the job ended without sound that can be followed";
    ApiError::new(StatusCode::CONFLICT, "no_sound", message)
        .hint("fetch its results; a worker on another machine sends only these")
}

/// The error of an answer that is cut by the end of the server.
fn ending() -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ending", "the server ends")
}

async fn opened(server: &Server, job: &Job) -> Option<(PreviewFormat, File, PathBuf)> {
    let folder = server.objects.attempt_folder(&lease(job)?);
    let format = preview::format(&folder).await?;
    let file = File::open(preview::path(&folder)).await.ok()?;
    Some((format, file, folder))
}

fn lease(job: &Job) -> Option<Lease> {
    let worker = job.worker.clone()?;
    (job.attempts > 0).then_some(Lease { id: job.id, worker, attempt: job.attempts })
}

impl Sound {
    /// The folder of the attempt, on this machine.
    pub(super) fn folder(&self) -> &path::Path {
        &self.folder
    }

    /// Returns the next samples; none at the end.
    ///
    /// # Errors
    /// If the job failed, was cancelled or began again; if the server ends.
    pub(super) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut over = pin!(self.server.over());
        let mut piece = vec![0; PIECE];
        loop {
            let length = self.file.read(&mut piece).await?;
            if length > 0 {
                piece.truncate(length);
                return Ok(Some(piece.into()));
            }
            if self.is_over {
                return Ok(None);
            }
            if let Some(asked) = self.asked.filter(|asked| asked.elapsed() < ASK) {
                tokio::select! {
                    () = self.changes.changed() => self.asked = None,
                    () = &mut over => return Err(io::Error::other(ending().error.message)),
                    () = grown(&mut self.watch) => {}
                    () = time::sleep_until(asked + ASK) => {}
                }
                continue;
            }
            let job = self.server.job(&self.caller, self.id).await;
            let job = job.map_err(|error| io::Error::other(error.error.message))?;
            self.asked = Some(Instant::now());
            if job.attempts != self.attempt {
                return Err(io::Error::other("the worker was lost, and the job began again"));
            }
            // One more look at the file: samples may have come before the end.
            self.is_over = job.state.is_ended();
            if let Some(error) = job.error {
                return Err(io::Error::other(error.message));
            }
        }
    }

    /// Returns the samples as a stream.
    pub(super) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        stream::unfold(Some(self), |sound| async {
            let mut sound = sound?;
            match sound.next().await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some(sound))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

/// The form of a stream.
#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct Form {
    /// `wav` (of unknown length) or `pcm` (16-bit integers, little endian).
    #[serde(default)]
    format: Option<String>,
}

/// Returns the sound of a job while it is made: speech, or the first song as its tiles are decoded. It is
/// a preview: the finished file may have another loudness.
#[utoipa::path(get, path = "/v1/jobs/{id}/audio", tag = "results", params(Form),
    responses((status = 200, description = "samples as they are made", content_type = "audio/wav")))]
pub(super) async fn audio(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<Uuid>,
    Query(form): Query<Form>,
) -> Result<Response, ApiError> {
    let is_raw = match form.format.as_deref() {
        None | Some("wav") => false,
        Some("pcm") => true,
        Some(other) => {
            let message = format!("`format: {other}` cannot be streamed");
            return Err(ApiError::bad("bad_value", message).param("format").hint("wav or pcm"));
        }
    };
    let sound = follow(server, caller, id).await?;
    Ok(answer(sound, is_raw))
}

/// Answers with sound while it is made.
pub(super) fn answer(sound: Sound, is_raw: bool) -> Response {
    use futures_util::StreamExt as _;
    let format = sound.format;
    let header = (!is_raw).then(|| Ok(wav::header(format)));
    let body = Body::from_stream(stream::iter(header).chain(sound.into_stream()));
    let kind = if is_raw { "audio/pcm" } else { "audio/wav" };
    let mut response = ([(header::CONTENT_TYPE, kind)], body).into_response();
    let headers = response.headers_mut();
    headers.insert("x-sample-rate", HeaderValue::from(format.sample_rate));
    headers.insert("x-channels", HeaderValue::from(format.channels));
    response
}

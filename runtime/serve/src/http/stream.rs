//! Sound while it is made, as a stream of samples.

use std::{io, path, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures_util::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use tokio::{
    fs::File,
    io::AsyncReadExt,
    time::{self, Instant},
};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    Answer, ApiError, Asker, Server,
    extract::{Path, Query},
    hub::Listener,
    relay::{BEGAN_AGAIN, Relayed},
    wav,
};
use crate::{
    arriving::{self, TextPart},
    file_watch::{Watched, folder_changed},
    job::{Job, State as JobState},
    preview::{self, PreviewFormat},
    store::Lease,
    worker::of_files,
};

/// Shortest time between two looks for a folder that the worker is about to make.
const SOON: Duration = Duration::from_millis(5);
/// Longest time between two looks at a file and two questions to the queue, if neither tells a change.
const ASK: Duration = Duration::from_millis(250);
/// Time that a worker on another machine has to take text.
const PATIENCE: Duration = Duration::from_secs(10);
/// The end of the sound of a job that was cancelled.
const CANCELLED: &str = "the job was cancelled";
/// The most bytes of one piece.
const PIECE: usize = 32 << 10;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new().route("/v1/jobs/{id}/audio", get(audio))
}

pub(super) struct Sound {
    pub(super) format: PreviewFormat,
    asker: Asker,
    changes: Listener,
    lease: Lease,
    source: Source,
    file: File,
    /// The time of the last question to the queue; none if the job changed since then.
    asked: Option<Instant>,
    /// The state of a job that ended.
    ended: Option<JobState>,
}

/// The origin of the samples.
enum Source {
    /// The file of a worker on this disk. Changes of its folder; none if the system tells none.
    Here(Option<Watched>),
    /// A worker on another machine.
    Elsewhere(Relayed),
}

impl Source {
    /// Waits for more samples.
    async fn changed(&mut self) {
        match self {
            Self::Here(watch) => folder_changed(watch).await,
            Self::Elsewhere(relayed) => relayed.changed().await,
        }
    }

    /// True if all samples of a job that has ended are in the file. Errors: the reason why they never will.
    fn is_whole(&self) -> io::Result<bool> {
        match self {
            Self::Here(_) => Ok(true),
            Self::Elsewhere(relayed) => relayed.is_whole(),
        }
    }
}

/// The attempt that is looked for, and the places where its sound may come.
#[derive(Default)]
struct Looked {
    attempt: u32,
    watch: Option<Watched>,
    relayed: Option<Relayed>,
}

impl Looked {
    /// Looks for the sound of an attempt.
    async fn look(
        &mut self,
        server: &Server,
        job: &Job,
        lease: &Lease,
    ) -> io::Result<Option<(PreviewFormat, File, Source)>> {
        let folder = server.objects.attempt_folder(lease);
        if self.watch.is_none() {
            // Watched before the look, so that no change is missed.
            self.watch = server.folders.watch(&folder);
        }
        if let Some((format, file)) = opened(&folder).await {
            return Ok(Some((format, file, Source::Here(self.watch.take()))));
        }
        // The folder of a job that ended may be here for its results alone.
        let is_elsewhere = self.watch.is_none() || job.state.is_ended();
        if let Some(live) = server.objects.live().filter(|_| is_elsewhere)
            && self.relayed.is_none()
        {
            self.relayed = Some(server.relays.listen(server, live, lease)?);
        }
        let Some(relayed) = &self.relayed else { return Ok(None) };
        let Some((format, file)) = relayed.opened().await else { return Ok(None) };
        Ok(self.relayed.take().map(|relayed| (format, file, Source::Elsewhere(relayed))))
    }

    /// True if no sound will come of a job that has ended.
    fn is_over(&self) -> bool {
        self.relayed.as_ref().is_none_or(Relayed::is_over)
    }

    /// True if changes are told.
    fn is_told(&self) -> bool {
        self.watch.is_some() || self.relayed.is_some()
    }

    async fn changed(&mut self) {
        tokio::select! {
            () = folder_changed(&mut self.watch) => {}
            () = async {
                match &mut self.relayed {
                    Some(relayed) => relayed.changed().await,
                    None => std::future::pending().await,
                }
            } => {}
        }
    }
}

/// Waits for the first samples of a job, and follows them.
/// Errors: as [`Asker::job`]; 409 if the job ended without sound; 503 if the server ends.
pub(super) async fn follow(asker: Asker, id: Uuid) -> Result<Sound, ApiError> {
    // Listen first, so that no change is missed.
    let mut changes = asker.hub.listen(&asker.store, id);
    let mut over = pin!(asker.over());
    let mut looked = Looked::default();
    let mut pause = SOON;
    loop {
        let job = asker.job(id).await?;
        let asked = Instant::now();
        if looked.attempt != job.attempts {
            looked = Looked { attempt: job.attempts, ..Looked::default() };
            pause = SOON;
        }
        // The file is looked for often, the queue is asked seldom.
        loop {
            if let Some(lease) = lease(&job) {
                let found = looked.look(&asker, &job, &lease).await;
                let found = found.map_err(|error| ApiError::from(of_files(&error)))?;
                if let Some((format, file, source)) = found {
                    let (asked, ended) = (Some(asked), None);
                    return Ok(Sound { format, asker, changes, lease, source, file, asked, ended });
                }
            }
            if job.state.is_ended() && looked.is_over() {
                return Err(without_sound(job));
            }
            let wait = if looked.is_told() { ASK } else { pause };
            tokio::select! {
                () = changes.changed() => break,
                () = &mut over => return Err(ending()),
                () = looked.changed() => {}
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

/// The reason why a job that ended has no sound to follow.
fn without_sound(job: Job) -> ApiError {
    if let Some(error) = job.error {
        return ApiError::from(error);
    }
    let message = "the job ended without sound that can be followed";
    ApiError::new(StatusCode::CONFLICT, "no_sound", message).hint("fetch its results")
}

/// The error of an answer that is cut by the end of the server.
fn ending() -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ending", "the server ends")
}

/// Opens the sound in a folder of this disk, if it has begun.
async fn opened(folder: &path::Path) -> Option<(PreviewFormat, File)> {
    let format = preview::format(folder).await?;
    Some((format, File::open(preview::path(folder)).await.ok()?))
}

fn lease(job: &Job) -> Option<Lease> {
    let worker = job.worker.clone()?;
    (job.attempts > 0).then_some(Lease { id: job.id, worker, attempt: job.attempts })
}

impl Sound {
    /// Gives a part of a text to the run. A run that is over takes nothing more.
    pub(super) async fn send_text(&self, part: TextPart) -> io::Result<()> {
        let live = match (&self.source, self.asker.objects.live()) {
            (Source::Elsewhere(_), Some(live)) => live,
            _ => {
                let folder = self.asker.objects.attempt_folder(&self.lease);
                let sent = tokio::task::spawn_blocking(move || arriving::send(&folder, &part));
                return sent.await.map_err(io::Error::other)?;
            }
        };
        let begin = Instant::now();
        loop {
            let told = live.send_text(self.lease.clone(), part.clone()).await;
            let Err(error) = told else { return Ok(()) };
            match self.asker.job(self.lease.id).await {
                Ok(job) if job.state.is_ended() || self.lease.is_over(&job) => return Ok(()),
                _ if begin.elapsed() > PATIENCE => return Err(error),
                _ => time::sleep(ASK).await,
            }
        }
    }

    /// Returns the next samples; none at the end. A job that failed, was cancelled or began again is an error.
    pub(super) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut over = pin!(self.asker.over());
        let mut piece = vec![0; PIECE];
        loop {
            // Asked before the look at the file: samples may come before the end.
            let is_whole = self.ended.is_some() && self.source.is_whole()?;
            let length = self.file.read(&mut piece).await?;
            if length > 0 {
                piece.truncate(length);
                return Ok(Some(piece.into()));
            }
            if is_whole && self.ended == Some(JobState::Cancelled) {
                // The sound that was made is not the whole one.
                return Err(io::Error::other(CANCELLED));
            }
            if is_whole {
                return Ok(None);
            }
            if let Some(asked) = self.asked.filter(|asked| asked.elapsed() < ASK) {
                tokio::select! {
                    () = self.changes.changed() => self.asked = None,
                    () = &mut over => return Err(io::Error::other(ending().error.message)),
                    () = self.source.changed() => {}
                    () = time::sleep_until(asked + ASK) => {}
                }
                continue;
            }
            let job = self.asker.job(self.lease.id).await;
            let job = job.map_err(|error| io::Error::other(error.error.message))?;
            self.asked = Some(Instant::now());
            if self.lease.is_over(&job) {
                return Err(io::Error::other(BEGAN_AGAIN));
            }
            self.ended = Some(job.state).filter(|state| state.is_ended());
            if let Some(error) = job.error {
                return Err(io::Error::other(error.message));
            }
        }
    }

    /// True if more samples are certain to come after those of [`Self::next`] so far.
    pub(super) async fn goes_on(&self) -> bool {
        match &self.source {
            Source::Here(_) => {
                preview::goes_on(&self.asker.objects.attempt_folder(&self.lease)).await
            }
            Source::Elsewhere(relayed) => relayed.goes_on(),
        }
    }

    /// Returns the samples, after the header of a WAV file if `is_wav`.
    pub(super) fn into_stream(self, is_wav: bool) -> impl Stream<Item = io::Result<Bytes>> + Send {
        let header = is_wav.then(|| Ok(wav::header(self.format)));
        let samples = stream::try_unfold(self, |mut sound| async move {
            let next = sound.next().await;
            next.map(|bytes| Some((bytes?, sound)))
        });
        stream::iter(header).chain(samples)
    }
}

/// The form of a stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    /// `wav` (of unknown length) or `pcm` (16-bit integers, little endian).
    format: Option<String>,
}

/// Returns the sound of a job while it is made: speech, or the first song as its tiles are decoded. It is
/// a preview: the finished file may have another loudness.
#[utoipa::path(get, path = "/v1/jobs/{id}/audio", tag = "results", params(Form),
    responses((status = 200, description = "samples as they are made", content_type = "audio/wav")))]
pub(super) async fn audio(
    asker: Asker,
    Path(id): Path<Uuid>,
    Query(form): Query<Form>,
) -> Answer<Response> {
    let is_raw = match form.format.as_deref() {
        None | Some("wav") => false,
        Some("pcm") => true,
        Some(other) => {
            let message = format!("`format: {other}` cannot be streamed");
            return Err(ApiError::bad("bad_value", message).param("format").hint("wav or pcm"));
        }
    };
    let sound = follow(asker, id).await?;
    let PreviewFormat { sample_rate, channels } = sound.format;
    let kind = if is_raw { "audio/pcm" } else { "audio/wav" };
    let body = Body::from_stream(sound.into_stream(!is_raw));
    let of_samples = ([("x-sample-rate", sample_rate)], [("x-channels", channels)]);
    Ok(([(header::CONTENT_TYPE, kind)], of_samples, body).into_response())
}

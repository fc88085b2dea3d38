//! Results of jobs, for the APIs that answer when a job has ended.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use axum::{
    body::Bytes,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures_util::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use serde_json::Value;
use tokio::time;
use tokio_util::io::ReaderStream;
use uuid::Uuid;

use super::{ApiError, Asker, Server, stream::follow, wav};
use crate::{
    job::{Content, Job, Output, State},
    maintenance::blocking,
};

/// Time in which a job may fail before an answer begins: then its reason is a status, not a body that
/// is cut.
pub(super) const EARLY: Duration = Duration::from_secs(1);

/// A later failure of a request that was accepted. With one of these statuses it is the server's.
fn blamed(error: ApiError, of: &[StatusCode]) -> ApiError {
    let is_servers = of.contains(&error.status);
    let status = if is_servers { StatusCode::INTERNAL_SERVER_ERROR } else { error.status };
    ApiError { status, ..error }
}

/// Returns a job that is done, or the reason why there are no results.
fn done(job: Job) -> Result<Job, ApiError> {
    match (job.state, job.error) {
        (State::Done, error) => Ok(Job { error, ..job }),
        (State::Failed, Some(error)) => {
            Err(blamed(error.into(), &[StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND]))
        }
        (State::Failed, None) => Err(ApiError::internal("the job failed without a reason")),
        (State::Cancelled, _) => {
            Err(ApiError::new(StatusCode::CONFLICT, "cancelled", "the job was cancelled"))
        }
        (State::Queued | State::Running | State::Cancelling, _) => {
            let message = format!("the job goes on: GET /v1/jobs/{}", job.id);
            Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, "not_ended", message))
        }
    }
}

/// Waits for the end of a job, as long as the server lets a request wait.
/// Errors: the reason of a failure; 409 for a cancelled job; 504 if it goes on.
pub(super) async fn finished(asker: &Asker, id: Uuid) -> Result<Job, ApiError> {
    done(asker.wait(id, asker.limits.wait).await?)
}

/// Waits for the end of a job within an answer that has begun, however long that is.
/// Errors: the reason of a failure; 409 for a cancelled job; 504 if the server ends.
pub(super) async fn ended(asker: &Asker, id: Uuid) -> Result<Job, ApiError> {
    loop {
        let job = asker.wait(id, asker.limits.wait).await?;
        if job.state.is_ended() || *asker.ending.borrow() {
            return done(job);
        }
    }
}

/// Waits a moment, so that a job that fails at once answers with a status.
/// Errors: the reason of the failure; 507 while a worker waits for a full disk.
async fn began(asker: &Asker, id: Uuid) -> Result<(), ApiError> {
    let job = asker.wait(id, EARLY).await?;
    // An answer that begins now would have no byte until there is room.
    if job.state.is_ended() { done(job).map(drop) } else { asker.has_room().await }
}

/// Returns the results of a kind, by song.
pub(super) fn of(job: &Job, content: Content) -> impl Iterator<Item = &Output> {
    job.outputs.iter().filter(move |output| output.content == content)
}

/// Returns the first result of a kind. The error calls it `name`.
pub(super) fn first<'a>(
    job: &'a Job,
    content: Content,
    name: &str,
) -> Result<&'a Output, ApiError> {
    of(job, content).next().ok_or_else(|| ApiError::internal(format!("the job has no {name}")))
}

fn sound(job: &Job) -> Result<&Output, ApiError> {
    first(job, Content::Audio, "sound")
}

pub(super) fn no_result() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "result_not_found", "the job has no such result")
        .hint("the job lists its results under `outputs`")
}

/// Returns the place of a result on disk, after it was fetched.
/// Errors: 404 if it is gone; a failure of the disk or of the other place.
pub(super) async fn place(server: &Server, output: &Output) -> Result<PathBuf, ApiError> {
    let wanted = output.clone();
    let place = blocking(&server.objects, move |objects| objects.fetch(&wanted)).await;
    place.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => no_result(),
        _ => ApiError::from(crate::worker::of_files(&error)),
    })
}

pub(super) async fn bytes(server: &Server, output: &Output) -> Result<Vec<u8>, ApiError> {
    let read = tokio::fs::read(place(server, output).await?).await;
    read.map_err(|error| ApiError::from(crate::worker::of_files(&error)))
}

pub(super) async fn json(server: &Server, output: &Output) -> Result<Value, ApiError> {
    serde_json::from_slice(&bytes(server, output).await?)
        .map_err(|_| ApiError::internal("a result is not JSON"))
}

pub(super) type Piece = io::Result<Bytes>;
pub(super) type Pieces = BoxStream<'static, Piece>;

/// Returns the finished sound of a job in pieces, when the job has ended: its file, or, if it `is_raw`, the
/// samples alone of a WAV of 16 bits. A later failure cuts the body.
pub(super) async fn whole(asker: Asker, id: Uuid, is_raw: bool) -> Result<Pieces, ApiError> {
    began(&asker, id).await?;
    let pieces = async move {
        let job = ended(&asker, id).await.map_err(other)?;
        let place = place(&asker, sound(&job).map_err(other)?).await.map_err(other)?;
        opened(&place, is_raw).await
    };
    Ok(stream::once(pieces).try_flatten().boxed())
}

async fn opened(place: &Path, is_raw: bool) -> io::Result<Pieces> {
    Ok(match is_raw {
        true => ReaderStream::new(wav::samples(place).await?).boxed(),
        false => ReaderStream::new(tokio::fs::File::open(place).await?).boxed(),
    })
}

/// Returns the sound of a job while it is made: samples of 16 bits, little endian, after a WAV header
/// if `is_wav`. This is the one place where sound is streamed; a job without a preview gives its
/// finished sound.
pub(super) async fn samples(asker: Asker, id: Uuid, is_wav: bool) -> Result<Pieces, ApiError> {
    let mut begin = Box::pin(begin(asker.clone(), id, is_wav));
    match time::timeout(EARLY, &mut begin).await {
        Ok(pieces) => pieces,
        // The answer begins; the wait goes on within its body.
        Err(_) => {
            asker.has_room().await?;
            Ok(stream::once(async { begin.await.map_err(other) }).try_flatten().boxed())
        }
    }
}

async fn begin(asker: Asker, id: Uuid, is_wav: bool) -> Result<Pieces, ApiError> {
    match follow(asker.clone(), id).await {
        Ok(sound) => Ok(sound.into_stream(is_wav).boxed()),
        Err(error) if error.error.code == "no_sound" => {
            // The job has ended: its sound is there, or the reason why not.
            let job = finished(&asker, id).await?;
            let place = place(&asker, sound(&job)?).await?;
            let pieces = opened(&place, !is_wav).await;
            pieces.map_err(|error| ApiError::from(crate::worker::of_files(&error)))
        }
        Err(error) => Err(blamed(error, &[StatusCode::BAD_REQUEST])),
    }
}

/// An error within a body.
fn other(error: ApiError) -> io::Error {
    io::Error::other(error.error.message)
}

/// Adds the id of the job to an answer, also to an error.
pub(super) fn with_id(answer: impl IntoResponse, id: Uuid) -> Response {
    ([("x-job-id", id.to_string())], answer).into_response()
}

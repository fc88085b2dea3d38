//! Jobs of the native API: submit, look, wait, change, cancel.

mod body;
mod labels;

use std::{str::FromStr, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

pub(super) use self::body::NewJob;

use super::{
    Answer, ApiError, Asker, Server, Submission, delayed,
    extract::{Path, Query},
    idempotency::Keyed,
};
use crate::{
    job::{Job, State as JobState},
    maintenance::{blocking, removing},
    store::{Marks, Put, Selection},
};

pub(super) const PAGE: u32 = 50;
/// The lowest priority of a client's job.
const LEAST_PRIORITY: i64 = -10;
pub(super) const MOST_OF_PAGE: u32 = 500;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v1/jobs", get(list))
        .route("/v1/jobs/{id}", get(show).patch(mark).delete(remove))
        .route("/v1/jobs/{id}/cancel", post(cancel))
        .route("/v1/jobs/{id}/retry", post(retry))
}

pub(super) fn upload_routes() -> Router<Arc<Server>> {
    Router::new().route("/v1/jobs", post(submit))
}

/// A number of seconds to wait.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    /// Seconds to wait for the end of the job; 0 answers at once.
    wait: Option<f64>,
}

impl Wait {
    pub(super) fn duration(&self) -> Result<Option<Duration>, ApiError> {
        let Some(seconds) = self.wait else { return Ok(None) };
        Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| {
            ApiError::bad("bad_value", "`wait` is not a number of seconds").param("wait")
        })
    }
}

/// Puts a job into the queue.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs", params(Wait), request_body = NewJob,
    responses(
        (status = 202, description = "accepted; with `wait` the body comes at the end of the job", body = Job),
        (status = 200, description = "the job of this Idempotency-Key, or with `wait` one that ended within a second. A job that failed is an answer too: `state` and `error` say so", body = Job),
        (status = 400, description = "a request that cannot be run"),
        (status = 422, description = "the Idempotency-Key was sent before, with another request"),
        (status = 429, description = "the queue is full"),
    ))]
pub(super) async fn submit(
    asker: Asker,
    Query(wait): Query<Wait>,
    request: Request,
) -> Answer<Response> {
    let wait = wait.duration()?;
    let keyed = Keyed::of(&request)?;
    let (new, asked) = body::read(&asker, request).await?;
    let NewJob { kind, request, title, priority } = new;
    labels::check(title.as_deref(), None)?;
    let (first, submission) = keyed.first(&asker, &asked).await?;
    let Put { job, existed } = match first {
        Some(job) => Put { job, existed: true },
        None => {
            // No client may overtake the others.
            let priority = priority.clamp(LEAST_PRIORITY, 0);
            let submission = Submission { priority, title, ..submission };
            asker.submit(kind, request, submission).await?
        }
    };
    let status = if existed { StatusCode::OK } else { StatusCode::ACCEPTED };
    let id = job.id;
    let answer = async move {
        let job = match wait {
            Some(wait) => asker.wait(id, wait).await?,
            None => job,
        };
        let status = if job.state.is_ended() { StatusCode::OK } else { status };
        Ok::<_, ApiError>((status, Json(shown(&asker, &job).await?)))
    };
    let location = [(header::LOCATION, format!("/v1/jobs/{id}"))];
    Ok((location, delayed::answer(id, status, answer).await).into_response())
}

/// Returns a job as clients see it, with its position in the queue.
pub(super) async fn shown(server: &Server, job: &Job) -> Result<Value, ApiError> {
    let mut object = serde_json::to_value(job).map_err(|_| ApiError::internal("no JSON"))?;
    if job.state == JobState::Queued {
        object["position"] = server.store.ahead(job.id).await?.map(|ahead| ahead + 1).into();
    }
    if let Some(outputs) = object["outputs"].as_array_mut() {
        for (output, of) in outputs.iter_mut().zip(&job.outputs) {
            output["url"] = format!("/v1/jobs/{}/outputs/{}", job.id, of.name).into();
            if let Some(keys) = output.as_object_mut() {
                keys.remove("key");
            }
        }
    }
    Ok(object)
}

async fn present(asker: &Asker, id: Uuid) -> Answer {
    Ok(Json(shown(asker, &asker.job(id).await?).await?))
}

/// A selection of jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// States, with commas between.
    state: Option<String>,
    /// Tasks, with commas between.
    kind: Option<String>,
    /// Only jobs before this one.
    before: Option<Uuid>,
    /// The most jobs, 1 to 500.
    #[param(minimum = 1)]
    limit: Option<u32>,
    /// True for jobs that were put away.
    #[serde(default)]
    deleted: bool,
}

/// A list of jobs.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes the answer")]
struct Jobs {
    /// The jobs, newest first.
    jobs: Vec<Job>,
}

/// Lists jobs, newest first.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", params(List),
    responses(
        (status = 200, description = "the jobs", body = Jobs),
        (status = 400, description = "a value that cannot be used"),
    ))]
pub(super) async fn list(asker: Asker, Query(list): Query<List>) -> Answer {
    let List { state, kind, before, limit, deleted } = list;
    let selection = Selection {
        owner: Some(asker.owner.clone()),
        states: listed("state", state.as_deref())?,
        kinds: listed("kind", kind.as_deref())?,
        before,
        deleted,
        limit: page(limit)?,
    };
    let mut jobs = Vec::new();
    for job in asker.store.list(selection).await? {
        jobs.push(shown(&asker, &job).await?);
    }
    Ok(Json(json!({ "jobs": jobs })))
}

/// Returns the most entries of a page.
/// Errors: 400 for a page without any.
pub(super) fn page(limit: Option<u32>) -> Result<u32, ApiError> {
    match limit {
        Some(0) => Err(ApiError::bad("bad_value", "`limit` is 0: 1 is the least").param("limit")),
        limit => Ok(limit.unwrap_or(PAGE).min(MOST_OF_PAGE)),
    }
}

/// Reads values with commas between.
fn listed<T: FromStr>(field: &str, text: Option<&str>) -> Result<Vec<T>, ApiError> {
    let words = text.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty());
    let one = |word: &str| {
        let message = || format!("`{field}: {word}` is not known");
        word.parse::<T>().map_err(|_| ApiError::bad("bad_value", message()).param(field))
    };
    words.map(one).collect()
}

/// Returns a job, at once or after its end.
#[utoipa::path(get, path = "/v1/jobs/{id}", tag = "jobs", params(Wait),
    responses(
        (status = 200, description = "the job, also one that failed: `state` and `error` say so", body = Job),
        (status = 404, description = "no job has this id"),
        (status = 410, description = "the job was removed"),
    ))]
pub(super) async fn show(asker: Asker, Path(id): Path<Uuid>, Query(wait): Query<Wait>) -> Answer {
    let job = match wait.duration()? {
        Some(wait) => asker.wait(id, wait).await?,
        None => asker.job(id).await?,
    };
    Ok(Json(shown(&asker, &job).await?))
}

/// Changes title, tags and likes of a job, puts it away or takes it back.
#[utoipa::path(patch, path = "/v1/jobs/{id}", tag = "jobs", request_body = Marks,
    responses(
        (status = 200, description = "the job", body = Job),
        (status = 400, description = "a title or a tag that is too long, or too many tags"),
        (status = 413, description = "the job would be too large for the queue; it stays as it is"),
    ))]
pub(super) async fn mark(asker: Asker, Path(id): Path<Uuid>, request: Request) -> Answer {
    let marks: Marks = body::read_change(request).await?;
    labels::check(marks.title.as_deref(), marks.tags.as_deref())?;
    let job = asker.job(id).await?;
    if marks.deleted == Some(true) && !job.state.is_ended() {
        let message = "the job has not ended";
        return Err(
            ApiError::new(StatusCode::CONFLICT, "not_ended", message).hint("cancel it first")
        );
    }
    asker.store.mark(id, marks).await?;
    present(&asker, id).await
}

/// Cancels a job. The answer has the state: `cancelling` until the worker stopped.
#[utoipa::path(post, path = "/v1/jobs/{id}/cancel", tag = "jobs",
    responses((status = 200, description = "the job", body = Job)))]
pub(super) async fn cancel(asker: Asker, Path(id): Path<Uuid>) -> Answer {
    asker.job(id).await?;
    asker.store.cancel(id).await?;
    present(&asker, id).await
}

/// Puts a job that failed or was cancelled back into the queue. It must pass the checks of a new one.
#[utoipa::path(post, path = "/v1/jobs/{id}/retry", tag = "jobs",
    responses(
        (status = 200, description = "the job", body = Job),
        (status = 404, description = "no job has this id, or one of its files is gone"),
        (status = 409, description = "the job is in another state"),
        (status = 429, description = "the queue is full"),
    ))]
pub(super) async fn retry(asker: Asker, Path(id): Path<Uuid>) -> Answer {
    asker.retry(id).await?;
    present(&asker, id).await
}

/// The choice of an end.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Remove {
    /// True: remove the results at once, without a way back.
    #[serde(default)]
    forget: bool,
}

/// Cancels a job that has not ended, and puts away one that has.
#[utoipa::path(delete, path = "/v1/jobs/{id}", tag = "jobs", params(Remove),
    responses((status = 200, description = "the job; with `forget` its id alone",
        body = Job)))]
pub(super) async fn remove(
    asker: Asker,
    Path(id): Path<Uuid>,
    Query(remove): Query<Remove>,
) -> Answer<Response> {
    let job = asker.job(id).await?;
    if !job.state.is_ended() {
        removing(&asker.objects, || asker.store.cancel(id)).await?;
    } else if remove.forget {
        // Results first: a job without results can be removed later, results without a job never.
        let removed = blocking(&asker.objects, move |objects| objects.remove(id, job.attempts));
        removed.await.map_err(|error| ApiError::from(crate::worker::of_files(&error)))?;
        removing(&asker.objects, || asker.store.forget(id)).await?;
        return Ok(Json(json!({ "id": id, "state": "forgotten" })).into_response());
    } else {
        let marks = || Marks { deleted: Some(true), ..Marks::default() };
        removing(&asker.objects, || asker.store.mark(id, marks())).await?;
    }
    Ok(present(&asker, id).await?.into_response())
}

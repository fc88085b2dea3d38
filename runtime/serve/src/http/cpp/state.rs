//! State, cancel and result of an id.

use std::time::Duration;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Failure, id, parts};
use crate::{
    http::{ApiError, Asker, Caller, Server, extract::Query},
    job::{Job, JobError, State as JobState},
};

/// Time in which a cancelled job mostly ends, so that the answer can say so.
const MOMENT: Duration = Duration::from_secs(2);

/// The query of `/job`.
#[derive(Debug, Deserialize)]
pub(super) struct JobQuery {
    #[serde(default)]
    id: String,
    result: Option<String>,
    cancel: Option<String>,
}

impl JobQuery {
    async fn jobs(&self, server: &Server, caller: &Caller) -> Result<Vec<Job>, ApiError> {
        if self.id.is_empty() {
            return Err(ApiError::bad("missing", "Missing id parameter").param("id"));
        }
        id::jobs(server, caller, &self.id).await
    }
}

/// Returns the state of several jobs as one of acestep.cpp's words.
fn word(jobs: &[Job]) -> &'static str {
    let any = |state| jobs.iter().any(|job| job.state == state);
    if any(JobState::Failed) {
        "failed"
    } else if any(JobState::Cancelled) {
        "cancelled"
    } else if jobs.iter().all(|job| job.state == JobState::Done) {
        "done"
    } else {
        "running"
    }
}

/// Tells the state, with the reason of a failure and the progress.
fn told(jobs: &[Job]) -> Value {
    let mut told = json!({ "status": word(jobs) });
    if let Some(error) = jobs.iter().find_map(|job| job.error.as_ref()) {
        told["error"] = error.line().into();
    }
    let running = |job: &&Job| matches!(job.state, JobState::Running | JobState::Cancelling);
    if let Some(job) = jobs.iter().find(running) {
        told["progress"] = json!(job.progress);
    }
    let notices: Vec<&String> = jobs.iter().flat_map(|job| &job.notices).collect();
    if !notices.is_empty() {
        told["notices"] = json!(notices);
    }
    told
}

/// Returns the state, or with `result=1` the result.
pub(super) async fn show(
    Asker(server, caller): Asker,
    asked: Result<Query<JobQuery>, ApiError>,
) -> Result<Response, Failure> {
    let Query(asked) = asked?;
    let jobs = asked.jobs(&server, &caller).await?;
    if asked.result.is_none() {
        return Ok(Json(told(&jobs)).into_response());
    }
    match word(&jobs) {
        "done" => Ok(parts::result(&server, &jobs).await?),
        state => {
            let reason = jobs.iter().find_map(|job| job.error.as_ref());
            let message = match reason {
                Some(error) => format!("Result not ready: {}", error.line()),
                None => format!("Result not ready: the job is {state}"),
            };
            // The answer of acestep.cpp, though the id is known.
            let error = JobError::new("job_not_found", message);
            let status = StatusCode::NOT_FOUND;
            Err(Failure::from(ApiError { status, error, retry_after: None }))
        }
    }
}

/// Cancels the jobs of an id. The answer has the state after a moment: `running` until the worker
/// stopped.
pub(super) async fn cancel(
    Asker(server, caller): Asker,
    asked: Result<Query<JobQuery>, ApiError>,
) -> Result<Json<Value>, Failure> {
    let Query(asked) = asked?;
    let jobs = asked.jobs(&server, &caller).await?;
    if asked.cancel.is_none() {
        return Err(ApiError::bad("missing", "Missing cancel parameter").param("cancel").into());
    }
    for job in &jobs {
        server.store.cancel(job.id).await.map_err(ApiError::from)?;
    }
    let mut ended = Vec::new();
    for job in jobs {
        ended.push(server.wait(&caller, job.id, MOMENT).await?);
    }
    Ok(Json(told(&ended)))
}

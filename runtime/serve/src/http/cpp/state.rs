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
    http::{ApiError, Asker, extract::Query},
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
    async fn jobs(&self, asker: &Asker) -> Result<Vec<Job>, ApiError> {
        if self.id.is_empty() {
            return Err(ApiError::bad("missing", "Missing id parameter").param("id"));
        }
        id::jobs(asker, &self.id).await
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
    asker: Asker,
    asked: Result<Query<JobQuery>, ApiError>,
) -> Result<Response, Failure> {
    let Query(asked) = asked?;
    let jobs = asked.jobs(&asker).await?;
    if asked.result.is_none() {
        return Ok(Json(told(&jobs)).into_response());
    }
    match word(&jobs) {
        "done" => Ok(parts::result(&asker, &jobs).await?),
        state => {
            let reason = jobs.iter().find_map(|job| job.error.as_ref());
            let reason = reason.map_or_else(|| format!("the job is {state}"), JobError::line);
            let message = format!("Result not ready: {reason}");
            // The answer of acestep.cpp, though the id is known.
            Err(ApiError::new(StatusCode::NOT_FOUND, "job_not_found", message).into())
        }
    }
}

/// Cancels the jobs of an id. The answer has the state after a moment: `running` until the worker
/// stopped.
pub(super) async fn cancel(
    asker: Asker,
    asked: Result<Query<JobQuery>, ApiError>,
) -> Result<Json<Value>, Failure> {
    let Query(asked) = asked?;
    let jobs = asked.jobs(&asker).await?;
    if asked.cancel.is_none() {
        return Err(ApiError::bad("missing", "Missing cancel parameter").param("cancel").into());
    }
    for job in &jobs {
        asker.store.cancel(job.id).await?;
    }
    let mut ended = Vec::new();
    for job in jobs {
        ended.push(asker.wait(job.id, MOMENT).await?);
    }
    Ok(Json(told(&ended)))
}

//! Tasks: release, query, fetch.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Query, Request, State},
    response::Response,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Answer, Failure, adapters, fields, progress, wrapped, wrong};
use crate::{
    http::{ApiError, Caller, Server, Submission, input::Input, jobs::idempotency_key, outputs},
    job::Kind,
};

/// The most jobs of one question.
const MOST: usize = 500;

/// Puts a task into the queue.
pub(super) async fn release(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer {
    let key = idempotency_key(request.headers())?;
    let body = Input::read(&server, &caller, request, &[]).await?.into_object()?;
    let fields::Read { kind, mut request, notices } = fields::read(body)?;
    if kind == Kind::Generate {
        adapters::add_default(&server, &caller, &mut request).await?;
    }
    let submission =
        Submission { idempotency_key: key, notices: notices.clone(), ..Submission::default() };
    let job = server.submit(&caller, kind, request, submission).await?.job;
    let ahead = server.store.ahead(job.id).await.map_err(ApiError::from)?;
    Ok(wrapped(json!({
        "task_id": job.id,
        "status": "queued",
        "queue_position": ahead.unwrap_or(0) + 1,
        "notices": notices,
    })))
}

/// Tells the state of tasks.
pub(super) async fn query(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer {
    let body = Input::read(&server, &caller, request, &[]).await?.into_object()?;
    let ids = ids(&body)?;
    let mut states = Vec::new();
    for id in ids {
        let job = match Uuid::parse_str(&id) {
            Ok(uuid) => server.job(&caller, uuid).await,
            Err(_) => Err(ApiError::no_job()),
        };
        states.push(match job {
            Ok(job) => progress::of(&server, &job).await?,
            Err(error) if error.status.is_client_error() => progress::unknown(&id),
            Err(error) => return Err(error.into()),
        });
    }
    Ok(wrapped(Value::Array(states)))
}

/// Reads the ids: a list, or JSON text of a list.
fn ids(body: &Map<String, Value>) -> Result<Vec<String>, ApiError> {
    let refused = || wrong("task_id_list", "it must be a list of ids");
    let list = match body.get("task_id_list") {
        Some(Value::Array(list)) => list.clone(),
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| refused())?,
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return Err(refused()),
    };
    if list.len() > MOST {
        return Err(wrong("task_id_list", "it has more than 500 ids"));
    }
    list.iter().map(|id| id.as_str().map(str::to_owned).ok_or_else(refused)).collect()
}

/// The name of a result.
#[derive(Debug, Deserialize)]
pub(super) struct Named {
    #[serde(default)]
    path: String,
}

/// Returns a sound by the name that `/query_result` gave.
pub(super) async fn audio(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Query(Named { path }): Query<Named>,
    request: Request,
) -> Result<Response, Failure> {
    let missing = || {
        let status = axum::http::StatusCode::NOT_FOUND;
        ApiError::new(status, "result_not_found", "no result has this name")
    };
    let (id, name) = path.split_once('/').ok_or_else(missing)?;
    let id = Uuid::parse_str(id).map_err(|_| missing())?;
    let job = server.job(&caller, id).await?;
    let output = job.outputs.iter().find(|output| output.name == name).ok_or_else(missing)?;
    Ok(outputs::file(&server, output, request).await?)
}

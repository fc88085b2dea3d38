//! Tasks: release, query, fetch.

use std::fs::File;

use axum::{
    extract::Request,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Answer, Failure, adapters, fields, progress, wrapped, wrong};
use crate::{
    http::{
        ApiError, Asker, Server, Submission,
        extract::Query,
        idempotency::Keyed,
        input::{self, Input},
        outputs, results,
    },
    job::{Kind, Output},
    worker::of_files,
};

/// The most jobs of one question.
const MOST: usize = 500;
/// The begin of the address of a result.
pub(super) const ADDRESS: &str = "/v1/audio?path=";

pub(super) async fn release(asker: Asker, request: Request) -> Answer {
    let keyed = Keyed::of(&request)?;
    let body = Input::read(&asker, request, &[]).await?;
    let (first, submission) = keyed.first(&asker, &body.asked()).await?;
    let job = match first {
        Some(job) => job,
        None => {
            let fields::Read { kind, mut request, mut notices } =
                fields::read(body.into_object()?)?;
            from_results(&asker, &mut request).await?;
            if kind == Kind::Generate {
                adapters::add_default(&asker, &mut request).await?;
                drop_optional(&asker, &mut request, &mut notices).await?;
            }
            let submission = Submission { notices, ..submission };
            asker.submit(kind, request, submission).await?.job
        }
    };
    let ahead = asker.store.ahead(job.id).await?;
    Ok(wrapped(json!({
        "task_id": job.id,
        "status": "queued",
        "queue_position": ahead.unwrap_or(0) + 1,
        "notices": job.notices,
    })))
}

/// Removes `use_cot_*` if no language model is here: upstream makes the song without it. Audio codes and other
/// texts need one.
async fn drop_optional(
    server: &Server,
    request: &mut Map<String, Value>,
    notices: &mut Vec<String>,
) -> Result<(), ApiError> {
    let mut asked = vec!["use_cot_metas", "use_cot_caption", "use_cot_language"];
    asked.retain(|key| request.get(*key) == Some(&Value::Bool(true)));
    let names_one = ["lm_model", "lm_model_path"].iter().any(|key| request.contains_key(*key));
    if asked.is_empty() || names_one || request.get("thinking") != Some(&Value::Bool(false)) {
        return Ok(());
    }
    let model = input::text(request, "model")?;
    if !server.ask(move |catalog| catalog.has_language(model.as_deref())).await? {
        for key in asked {
            request.remove(key);
            notices.push(format!("`{key}` is not read: no language model is here"));
        }
    }
    Ok(())
}

/// Turns names of results, which clients send as the place of a source, into files.
async fn from_results(asker: &Asker, request: &mut Map<String, Value>) -> Result<(), ApiError> {
    for field in ["src_audio", "reference_audio", "audio"] {
        let Some(Value::String(value)) = request.get(field) else { continue };
        let name = match value.strip_prefix(ADDRESS) {
            Some(escaped) => unescaped(escaped),
            None => value.clone(),
        };
        let Some(output) = result(asker, &name).await? else { continue };
        let place = results::place(asker, &output).await?;
        let file = File::open(place).map_err(|error| ApiError::from(of_files(&error)))?;
        let id = input::store(asker, field, output.bytes, file).await?;
        request.insert(field.to_owned(), id.into());
    }
    Ok(())
}

/// Reads the escapes of a value of a query.
fn unescaped(value: &str) -> String {
    form_urlencoded::parse(value.as_bytes()).next().unwrap_or_default().0.into_owned()
}

/// Looks up a result by its name, `<job>/<file>`.
async fn result(asker: &Asker, name: &str) -> Result<Option<Output>, ApiError> {
    let Some((id, name)) = name.split_once('/') else { return Ok(None) };
    let Ok(id) = Uuid::parse_str(id) else { return Ok(None) };
    let job = asker.job(id).await?;
    Ok(job.outputs.into_iter().find(|output| output.name == name))
}

/// Tells the state of tasks.
pub(super) async fn query(asker: Asker, request: Request) -> Answer {
    let body = Input::read(&asker, request, &[]).await?.into_object()?;
    let ids = ids(&body)?;
    let mut states = Vec::new();
    for id in ids {
        let job = match Uuid::parse_str(&id) {
            Ok(uuid) => asker.job(uuid).await,
            Err(_) => Err(ApiError::no_job()),
        };
        states.push(match job {
            Ok(job) => progress::of(&asker, &job).await?,
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

#[derive(Debug, Deserialize)]
pub(super) struct Named {
    #[serde(default)]
    path: String,
}

/// Returns a sound by the name that `/query_result` gave.
pub(super) async fn audio(
    asker: Asker,
    named: Result<Query<Named>, ApiError>,
    request: Request,
) -> Result<Response, Failure> {
    let Query(Named { path }) = named?;
    let missing = || {
        let status = axum::http::StatusCode::NOT_FOUND;
        ApiError::new(status, "result_not_found", "no result has this name")
    };
    let output = result(&asker, &path).await?.ok_or_else(missing)?;
    let refused = |error: ApiError| Failure::from(error).into_response();
    Ok(outputs::file(&asker, &output, request, refused).await?)
}

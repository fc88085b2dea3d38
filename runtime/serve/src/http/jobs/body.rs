//! The body of a submission: JSON, or a form with files.

use axum::{
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequest, Request},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::{
    http::{ApiError, Asker, JSON_BYTES, files, form::Form, input::check_json},
    job::Kind,
    store::Marks,
};

/// A submission as JSON.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct NewJob {
    /// The task; `generate` if it is left out.
    #[serde(default = "generate")]
    pub(super) kind: Kind,
    /// The request of the task. For songs the keys of `acestep generate`, for speech of `speak`.
    #[serde(default)]
    pub(super) request: Map<String, Value>,
    /// A title for people.
    pub(super) title: Option<String>,
    /// Higher runs earlier: from -10 to 0, the usual one. A number beyond becomes the nearest of these.
    #[serde(default)]
    pub(super) priority: i64,
}

fn generate() -> Kind {
    Kind::Generate
}

/// Reads a submission: JSON, or a form with the part `job` (or `request`) and files. Returns it also as it was
/// sent, with ids for files.
pub(super) async fn read(asker: &Asker, request: Request) -> Result<(NewJob, Value), ApiError> {
    if !files::is_form(request.headers()) {
        let asked = object(&bytes(request).await?)?;
        return Ok((job(&asked)?, asked));
    }
    let mut form = Form::of(request).await?;
    let (mut new, mut asked, mut sent) = (None, Map::new(), Map::new());
    while let Some(mut field) = form.next_field().await? {
        let name = field.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "job" | "request" => {
                let text = files::text(&mut field, JSON_BYTES).await?;
                let given = object(text.as_bytes())?;
                let given_job = match name.as_str() {
                    "job" => job(&given)?,
                    _ => job(&json!({ "request": given }))?,
                };
                asked.insert(name, given);
                if new.replace(given_job).is_some() {
                    let message = "the form has its request twice: send `job` or `request`";
                    return Err(ApiError::bad("bad_form", message));
                }
            }
            _ if !files::fields().any(|field| field == name) => {
                let message = format!("no field of a request takes the file `{name}`");
                let hint = format!("files are {}", files::fields().collect::<Vec<_>>().join(", "));
                return Err(ApiError::bad("unknown_key", message).param(name).hint(hint));
            }
            _ => {
                let file = files::receive(asker, field).await?;
                if sent.insert(name.clone(), json!(file.id)).is_some() {
                    return Err(twice(name));
                }
            }
        }
    }
    let Some(mut new) = new else {
        return Err(ApiError::bad("bad_form", "the form has no part `job` or `request`"));
    };
    for (name, id) in sent {
        asked.insert(name.clone(), id.clone());
        let given = new.request.insert(name.clone(), id);
        if given.is_some_and(|given| !given.is_null() && given != "") {
            return Err(twice(name));
        }
    }
    Ok((new, Value::Object(asked)))
}

fn twice(name: String) -> ApiError {
    ApiError::bad("bad_form", format!("the form has `{name}` twice")).param(name)
}

/// Reads a JSON object; too many values, or a key with two, are refused.
fn object(bytes: &[u8]) -> Result<Value, ApiError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| ApiError::bad("bad_json", "the request is not UTF-8"))?;
    check_json(text)?;
    let object = acestep_music::request::object(text);
    object.map(Value::Object).map_err(|error| ApiError::from(crate::error::of(&error)))
}

fn job(asked: &Value) -> Result<NewJob, ApiError> {
    let example = r#"{"kind": "generate", "request": {"caption": ".."}}"#;
    NewJob::deserialize(asked).map_err(|error| unread("the job", &error, example))
}

fn unread(what: &str, error: &serde_json::Error, example: &str) -> ApiError {
    let message = format!("{what} cannot be read: {error}");
    ApiError::bad("bad_json", message).hint(format!("send {example}"))
}

/// Reads a body of JSON, whatever its header says it is.
async fn bytes(mut request: Request) -> Result<Bytes, ApiError> {
    DefaultBodyLimit::max(JSON_BYTES).apply(&mut request);
    Bytes::from_request(request, &()).await.map_err(|error| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large("the JSON is larger than 1 MiB")
            .hint("send files as a form, or with POST /v1/files"),
        _ => files::of_body(&error),
    })
}

/// Reads a change of the words about a job.
pub(super) async fn read_change(request: Request) -> Result<Marks, ApiError> {
    let asked = object(&bytes(request).await?)?;
    let example = r#"{"title": ".."}"#;
    Marks::deserialize(&asked).map_err(|error| unread("the change", &error, example))
}

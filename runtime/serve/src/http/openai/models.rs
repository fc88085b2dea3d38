//! Models and voices, in the shapes of OpenAI, OpenRouter and Open WebUI at once.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde_json::{Value, json};

use super::PREFIX;
use crate::{
    catalog::{Family, Model, Speech, Voice},
    http::{Answer, ApiError, Server, extract::Path},
};

/// The length of a song that clients of OpenRouter are told, in seconds.
const LONGEST: u64 = 600;

pub(super) async fn known_voices(server: &Server) -> Result<Vec<Voice>, ApiError> {
    server.ask(|catalog| catalog.voices()).await
}

/// Returns a model of speech: the one called `name`, or the default one.
pub(super) async fn speech_of(
    server: &Server,
    name: Option<String>,
) -> Result<Option<(String, Speech)>, ApiError> {
    server.ask(move |catalog| catalog.speech(name.as_deref())).await
}

fn shown(server: &Server, model: &Model) -> Value {
    let created = crate::job::now() / 1000 - server.start.elapsed().as_secs() as i64;
    let (inputs, outputs) = match model.family {
        Family::Music => (vec!["text", "audio"], vec!["audio", "text"]),
        Family::Language => (vec!["text"], vec!["text"]),
        Family::Speech => (vec!["text", "audio"], vec!["audio"]),
    };
    let mut shown = json!({
        "id": model.id,
        "object": "model",
        "created": created,
        "owned_by": "acestep",
        "name": model.id,
        "description": model.about,
        "family": model.family,
        "is_default": model.is_default,
        "input_modalities": inputs,
        "output_modalities": outputs,
        "supports": model.supports,
        "context_length": 4096,
        "max_output_length": LONGEST,
        "pricing": { "prompt": "0", "completion": "0", "request": "0" },
        "supported_sampling_parameters": ["temperature", "top_p"],
    });
    if let Some(speech) = &model.speech {
        shown["speech"] = json!(speech);
    }
    shown
}

pub(super) async fn list(State(server): State<Arc<Server>>) -> Answer {
    let models = server.models().await?;
    let default = models.iter().find(|model| model.is_default && model.family == Family::Music);
    let default = default.map(|model| model.id.clone());
    let data: Vec<Value> = models.iter().map(|model| shown(&server, model)).collect();
    Ok(Json(json!({ "object": "list", "data": data, "default_model": default })))
}

pub(super) async fn one(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Answer {
    let id = id.strip_prefix(PREFIX).unwrap_or(&id);
    let models = server.models().await?;
    let found = models.iter().find(|model| model.id == id);
    let found = found.ok_or_else(|| {
        ApiError::new(StatusCode::NOT_FOUND, "model_not_found", "no model has this name")
            .hint("GET /v1/models lists them")
    })?;
    Ok(Json(shown(&server, found)))
}

/// Lists the models of speech, as Open WebUI asks for them.
pub(super) async fn speech(State(server): State<Arc<Server>>) -> Answer {
    let models = server.models().await?;
    let models = models.iter().filter(|model| model.family == Family::Speech);
    let models: Vec<Value> =
        models.map(|model| json!({ "id": model.id, "name": model.id })).collect();
    Ok(Json(json!({ "models": models })))
}

pub(super) async fn voices(State(server): State<Arc<Server>>) -> Answer {
    let voices: Vec<Value> = known_voices(&server)
        .await?
        .iter()
        .map(|Voice { id, model, is_kept }| {
            json!({ "id": id, "name": id, "object": "voice", "model": model, "is_kept": is_kept })
        })
        .collect();
    Ok(Json(json!({ "object": "list", "voices": voices })))
}

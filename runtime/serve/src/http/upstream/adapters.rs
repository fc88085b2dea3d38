//! The default adapter of later jobs: a row of the store for each client, so that it holds for all
//! workers and after a restart. A job with an adapter of its own has that one.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::{Answer, is_set, text, wrapped, wrong};
use crate::http::{ApiError, Caller, Server, input::Input};

/// The name of the row of all clients.
const ROW: &str = "lora";
/// Held while the row changes: of two clients at once, each would undo what the other one chose.
static CHANGES: Mutex<()> = Mutex::const_new(());

/// The default adapter of a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Default {
    adapter: String,
    scale: f64,
    is_active: bool,
}

async fn rows(server: &Server) -> Result<Map<String, Value>, ApiError> {
    match server.store.setting(ROW).await? {
        Some(Value::Object(rows)) => Ok(rows),
        _ => Ok(Map::new()),
    }
}

async fn of(server: &Server, caller: &Caller) -> Result<Option<Default>, ApiError> {
    let row = rows(server).await?.remove(&caller.0);
    Ok(row.and_then(|row| serde_json::from_value(row).ok()))
}

async fn set(server: &Server, caller: &Caller, row: Option<&Default>) -> Result<(), ApiError> {
    let _changes = CHANGES.lock().await;
    let mut rows = rows(server).await?;
    match row {
        Some(row) => rows.insert(caller.0.clone(), json!(row)),
        None => rows.remove(&caller.0),
    };
    Ok(server.store.set(ROW, Value::Object(rows)).await?)
}

/// Adds the default adapter to a request without one.
pub(super) async fn add_default(
    server: &Server,
    caller: &Caller,
    request: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    if request.contains_key("adapter") || request.contains_key("adapters") {
        return Ok(());
    }
    if let Some(row) = of(server, caller).await?.filter(|row| row.is_active) {
        request.insert("adapter".to_owned(), row.adapter.into());
        request.insert("adapter_scale".to_owned(), row.scale.into());
    }
    Ok(())
}

async fn body(
    server: &Server,
    caller: &Caller,
    request: Request,
) -> Result<Map<String, Value>, ApiError> {
    Input::read(server, caller, request, &[]).await?.into_object()
}

async fn loaded(server: &Server, caller: &Caller) -> Result<Default, ApiError> {
    of(server, caller).await?.ok_or_else(|| {
        ApiError::new(StatusCode::BAD_REQUEST, "no_adapter", "no adapter is loaded")
            .hint("POST /v1/lora/load first")
    })
}

/// Chooses the adapter of later jobs, by its name.
pub(super) async fn load(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer {
    let body = body(&server, &caller, request).await?;
    let name = text(&body, "lora_path")?.ok_or_else(|| wrong("lora_path", "a name is needed"))?;
    if name.contains(['/', '\\']) || name.starts_with('.') {
        let error = wrong("lora_path", "it is the name of an adapter, never a path");
        return Err(error.hint("put adapters into the adapters folder of the server").into());
    }
    let asked = name.clone();
    let known = server.ask(move |catalog| catalog.check_adapter(&asked)).await?;
    known.map_err(ApiError::from)?;
    let row = Default { adapter: name.clone(), scale: 1.0, is_active: true };
    set(&server, &caller, Some(&row)).await?;
    let message = "later jobs have this adapter; it is read when a job runs";
    Ok(wrapped(json!({ "message": message, "adapter_name": name, "lora_path": name })))
}

/// Forgets the adapter.
pub(super) async fn unload(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    set(&server, &caller, None).await?;
    Ok(wrapped(json!({ "message": "later jobs have no adapter" })))
}

/// Switches the adapter on or off.
pub(super) async fn toggle(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer {
    let body = body(&server, &caller, request).await?;
    let row = Default { is_active: is_set(&body, "use_lora")?, ..loaded(&server, &caller).await? };
    set(&server, &caller, Some(&row)).await?;
    let message = if row.is_active { "the adapter is on" } else { "the adapter is off" };
    Ok(wrapped(json!({ "message": message, "use_lora": row.is_active })))
}

/// Sets the scale of the adapter.
pub(super) async fn scale(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer {
    let body = body(&server, &caller, request).await?;
    let scale = body.get("scale").and_then(Value::as_f64).filter(|x| (0.0..=1.0).contains(x));
    let scale = scale.ok_or_else(|| wrong("scale", "it must be a number from 0 to 1"))?;
    let row = Default { scale, ..loaded(&server, &caller).await? };
    set(&server, &caller, Some(&row)).await?;
    Ok(wrapped(json!({ "message": "the scale is set", "scale": scale })))
}

/// Tells the adapter of later jobs.
pub(super) async fn status(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let row = of(&server, &caller).await?;
    let name = row.as_ref().map(|row| row.adapter.clone());
    let scale = row.as_ref().map_or(1.0, |row| row.scale);
    let scales: Map<String, Value> = name.iter().map(|name| (name.clone(), scale.into())).collect();
    Ok(wrapped(json!({
        "loaded": row.is_some(),
        "lora_loaded": row.is_some(),
        "active": row.as_ref().is_some_and(|row| row.is_active),
        "use_lora": row.as_ref().is_some_and(|row| row.is_active),
        "scale": scale,
        "lora_scale": scale,
        "adapters": name.iter().collect::<Vec<_>>(),
        "scales": scales,
    })))
}

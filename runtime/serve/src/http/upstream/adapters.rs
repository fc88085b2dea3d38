//! The default adapter of later jobs: a row of the store for each client, so that it holds for all
//! workers and after a restart. A job with an adapter of its own has that one.

use axum::{extract::Request, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Answer, is_set, text, wrapped, wrong};
use crate::http::{ApiError, Asker, Caller, Server, input::Input};

/// The name of the row of all clients.
const ROW: &str = "lora";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Default {
    adapter: String,
    scale: f64,
    is_active: bool,
}

fn row(rows: &Value, caller: &str) -> Option<Default> {
    rows.get(caller).and_then(|row| Default::deserialize(row).ok())
}

async fn of(server: &Server, caller: &Caller) -> Result<Option<Default>, ApiError> {
    Ok(row(&server.store.setting(ROW).await?, &caller.0))
}

/// Changes the row of a client in one step: two changes at once are both made. Returns the new row.
async fn change(
    server: &Server,
    caller: &Caller,
    work: impl Fn(Option<Default>) -> Option<Default> + Send + 'static,
) -> Result<Option<Default>, ApiError> {
    let name = caller.0.clone();
    let changed = move |old: Value| {
        let new = work(row(&old, &name));
        let mut rows = match old {
            Value::Object(rows) => rows,
            _ => Map::new(),
        };
        match new {
            Some(new) => rows.insert(name.clone(), json!(new)),
            None => rows.remove(&name),
        };
        Value::Object(rows)
    };
    let rows = server.store.change_setting(ROW, Box::new(changed)).await?;
    Ok(row(&rows, &caller.0))
}

/// Changes the adapter that a client has loaded.
/// Errors: 400 if it has none.
async fn change_loaded(
    server: &Server,
    caller: &Caller,
    work: impl Fn(Default) -> Default + Send + 'static,
) -> Result<Default, ApiError> {
    let row = change(server, caller, move |row| row.map(&work)).await?;
    row.ok_or_else(|| {
        ApiError::new(StatusCode::BAD_REQUEST, "no_adapter", "no adapter is loaded")
            .hint("POST /v1/lora/load first")
    })
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

/// Chooses the adapter of later jobs, by its name.
pub(super) async fn load(Asker(server, caller): Asker, request: Request) -> Answer {
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
    change(&server, &caller, move |_| Some(row.clone())).await?;
    let message = "later jobs have this adapter; it is read when a job runs";
    Ok(wrapped(json!({ "message": message, "adapter_name": name, "lora_path": name })))
}

/// Forgets the adapter.
pub(super) async fn unload(Asker(server, caller): Asker) -> Answer {
    change(&server, &caller, |_| None).await?;
    Ok(wrapped(json!({ "message": "later jobs have no adapter" })))
}

/// Switches the adapter on or off.
pub(super) async fn toggle(Asker(server, caller): Asker, request: Request) -> Answer {
    let body = body(&server, &caller, request).await?;
    let is_active = is_set(&body, "use_lora")?;
    change_loaded(&server, &caller, move |row| Default { is_active, ..row }).await?;
    let message = if is_active { "the adapter is on" } else { "the adapter is off" };
    Ok(wrapped(json!({ "message": message, "use_lora": is_active })))
}

/// Sets the scale of the adapter.
pub(super) async fn scale(Asker(server, caller): Asker, request: Request) -> Answer {
    let body = body(&server, &caller, request).await?;
    let scale = body.get("scale").and_then(Value::as_f64).filter(|x| (0.0..=1.0).contains(x));
    let scale = scale.ok_or_else(|| wrong("scale", "it must be a number from 0 to 1"))?;
    change_loaded(&server, &caller, move |row| Default { scale, ..row }).await?;
    Ok(wrapped(json!({ "message": "the scale is set", "scale": scale })))
}

/// Tells the adapter of later jobs.
pub(super) async fn status(Asker(server, caller): Asker) -> Answer {
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

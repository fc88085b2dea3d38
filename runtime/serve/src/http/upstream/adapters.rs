//! The default adapter of later jobs: a row of the store for each client, so that it holds for all
//! workers and after a restart. A job with an adapter of its own has that one.

use axum::{extract::Request, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Answer, is_set, text, wrapped, wrong};
use crate::http::{ApiError, Asker, input::Input};

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

async fn of(asker: &Asker) -> Result<Option<Default>, ApiError> {
    Ok(row(&asker.store.setting(ROW).await?, &asker.owner))
}

/// Changes the row of a client in one step: two changes at once are both made. Returns the new row.
async fn change(
    asker: &Asker,
    work: impl Fn(Option<Default>) -> Option<Default> + Send + 'static,
) -> Result<Option<Default>, ApiError> {
    let name = asker.owner.clone();
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
    let rows = asker.store.change_setting(ROW, Box::new(changed)).await?;
    Ok(row(&rows, &asker.owner))
}

/// Changes the adapter that a client has loaded.
/// Errors: 400 if it has none.
async fn change_loaded(
    asker: &Asker,
    work: impl Fn(Default) -> Default + Send + 'static,
) -> Result<Default, ApiError> {
    let row = change(asker, move |row| row.map(&work)).await?;
    row.ok_or_else(|| {
        ApiError::new(StatusCode::BAD_REQUEST, "no_adapter", "no adapter is loaded")
            .hint("POST /v1/lora/load first")
    })
}

/// Adds the default adapter to a request without one.
pub(super) async fn add_default(
    asker: &Asker,
    request: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    if request.contains_key("adapter") || request.contains_key("adapters") {
        return Ok(());
    }
    if let Some(row) = of(asker).await?.filter(|row| row.is_active) {
        request.insert("adapter".to_owned(), row.adapter.into());
        request.insert("adapter_scale".to_owned(), row.scale.into());
    }
    Ok(())
}

/// Chooses the adapter of later jobs, by its name.
pub(super) async fn load(asker: Asker, request: Request) -> Answer {
    let body = Input::read(&asker, request, &[]).await?.into_object()?;
    let name = text(&body, "lora_path")?.ok_or_else(|| wrong("lora_path", "a name is needed"))?;
    if name.contains(['/', '\\']) || name.starts_with('.') {
        let error = wrong("lora_path", "it is the name of an adapter, never a path");
        return Err(error.hint("put adapters into the adapters folder of the server").into());
    }
    let asked = name.clone();
    asker.ask(move |catalog| catalog.check_adapter(&asked)).await??;
    let row = Default { adapter: name.clone(), scale: 1.0, is_active: true };
    change(&asker, move |_| Some(row.clone())).await?;
    let message = "later jobs have this adapter; it is read when a job runs";
    Ok(wrapped(json!({ "message": message, "adapter_name": name, "lora_path": name })))
}

/// Forgets the adapter.
pub(super) async fn unload(asker: Asker) -> Answer {
    change(&asker, |_| None).await?;
    Ok(wrapped(json!({ "message": "later jobs have no adapter" })))
}

/// Switches the adapter on or off.
pub(super) async fn toggle(asker: Asker, request: Request) -> Answer {
    let body = Input::read(&asker, request, &[]).await?.into_object()?;
    let is_active = is_set(&body, "use_lora")?;
    change_loaded(&asker, move |row| Default { is_active, ..row }).await?;
    let message = if is_active { "the adapter is on" } else { "the adapter is off" };
    Ok(wrapped(json!({ "message": message, "use_lora": is_active })))
}

/// Sets the scale of the adapter.
pub(super) async fn scale(asker: Asker, request: Request) -> Answer {
    let body = Input::read(&asker, request, &[]).await?.into_object()?;
    let scale = body.get("scale").and_then(Value::as_f64).filter(|x| (0.0..=1.0).contains(x));
    let scale = scale.ok_or_else(|| wrong("scale", "it must be a number from 0 to 1"))?;
    change_loaded(&asker, move |row| Default { scale, ..row }).await?;
    Ok(wrapped(json!({ "message": "the scale is set", "scale": scale })))
}

/// Tells the adapter of later jobs.
pub(super) async fn status(asker: Asker) -> Answer {
    let row = of(&asker).await?;
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

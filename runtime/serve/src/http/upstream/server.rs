//! Models, numbers and health, in upstream's shapes.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use axum::{
    Json,
    extract::{Request, State},
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{Answer, Failure, text, wrapped, wrong};
use crate::{
    catalog::{Family, Model},
    http::{ApiError, Asker, Server, input::Input},
};

/// Models that were listed a moment ago: the health needs no key, so it must not read the disk at will.
#[derive(Debug, Default)]
pub(in crate::http) struct Recent(Mutex<Option<(Instant, Vec<Model>)>>);

/// Time that a list of models is right.
const RECENT: Duration = Duration::from_secs(5);

async fn recent_models(server: &Server) -> Result<Vec<Model>, ApiError> {
    // Held while the models are listed, so that many questions are one look.
    let mut recent = server.recent_models.0.lock().await;
    match &*recent {
        Some((time, models)) if time.elapsed() < RECENT => Ok(models.clone()),
        _ => {
            let new = server.models().await?;
            *recent = Some((Instant::now(), new.clone()));
            Ok(new)
        }
    }
}

/// Models in upstream's shape. Each counts as loaded: a job may name any of them, and the worker loads
/// it.
fn shown(models: &[Model]) -> Value {
    let of = |family| models.iter().filter(move |model| model.family == family);
    let songs: Vec<Value> = of(Family::Music)
        .map(|model| {
            json!({
                "name": model.id,
                "is_default": model.is_default,
                "is_loaded": true,
                "supported_task_types": model.supports,
            })
        })
        .collect();
    let language: Vec<Value> =
        of(Family::Language).map(|model| json!({ "name": model.id, "is_loaded": true })).collect();
    let default = of(Family::Music).find(|model| model.is_default).or(of(Family::Music).next());
    let default = default.map(|model| model.id.clone());
    let first = of(Family::Language).next().map(|model| model.id.clone());
    json!({
        "models": songs, "default_model": default, "loaded_model": default,
        "llm_initialized": first.is_some(), "loaded_lm_model": first, "lm_models": language,
        "gpus": [], "gpu_mapping": {}, "device_map": {},
    })
}

pub(super) async fn inventory(State(server): State<Arc<Server>>) -> Answer {
    Ok(wrapped(shown(&server.models().await?)))
}

/// The answer to a wish to load a model.
const NOTHING: &str = "nothing was loaded: a worker loads the model of each job when it runs";

/// Answers as if a model were loaded. Workers load models when a job needs them.
pub(super) async fn init(asker: Asker, request: Request) -> Answer {
    let body = Input::read(&asker, request, &[]).await?.into_object()?;
    let all = asker.models().await?;
    let mut told = shown(&all);
    for (field, family, loaded) in [
        ("model", Family::Music, "loaded_model"),
        ("lm_model_path", Family::Language, "loaded_lm_model"),
    ] {
        let Some(name) = text(&body, field)? else { continue };
        let of = all.iter().filter(|model| model.family == family);
        let names: Vec<_> = of.map(|model| model.id.as_str()).collect();
        if !names.contains(&name.as_str()) {
            let error = wrong(field, &format!("no model is called `{name}`"));
            return Err(error.hint(format!("here are {}", names.join(", "))).into());
        }
        told[loaded] = name.into();
    }
    told["message"] = NOTHING.into();
    told["slot"] = body.get("slot").cloned().unwrap_or(1.into());
    Ok(wrapped(told))
}

/// Does nothing, and says so.
pub(super) async fn reinitialize(State(server): State<Arc<Server>>) -> Answer {
    let mut told = shown(&server.models().await?);
    told["message"] = NOTHING.into();
    Ok(wrapped(told))
}

/// Returns the numbers of the caller's jobs.
pub(super) async fn stats(asker: Asker) -> Answer {
    let counts = asker.store.counts(Some(asker.owner.clone())).await?;
    let all = asker.store.counts(None).await?;
    let total = counts.queued + counts.running + counts.done + counts.failed + counts.cancelled;
    Ok(wrapped(json!({
        "jobs": {
            "total": total,
            "queued": counts.queued,
            "running": counts.running,
            "succeeded": counts.done,
            "failed": counts.failed,
            "cancelled": counts.cancelled,
        },
        "queue_size": all.queued,
        "queue_maxsize": asker.limits.queue,
        "avg_job_seconds": all.mean_seconds,
    })))
}

/// Says that the server is alive, to upstream's clients, to those of acestep.cpp and to probes. It needs
/// no key, so it names no jobs.
pub(super) async fn health(State(server): State<Arc<Server>>) -> Result<Json<Value>, Failure> {
    let is_ready = server.is_ready.load(Ordering::Relaxed);
    let models = shown(&recent_models(&server).await?);
    let Json(mut told) = wrapped(json!({
        "status": "ok",
        "service": "ACE-Step API",
        "version": server.version,
        "models_initialized": is_ready,
        "llm_initialized": models["llm_initialized"],
        "loaded_model": models["loaded_model"],
        "loaded_lm_model": models["loaded_lm_model"],
        "gpus": [],
        "gpu_mapping": {},
        "device_map": {},
    }));
    told["status"] = "ok".into();
    Ok(Json(told))
}

//! Description of a decided run as JSON.

use acestep_engine::device::{dtype, memory::MemoryNeed};
use serde_json::{Value, json};

use super::{
    super::{Composition, Resolved, adapters},
    Resources, Used, sounds,
};
use crate::language;

/// Returns the language model, with its time after it has run; null without it.
pub fn language_json(resolved: &Resolved) -> Value {
    let Resolved { setup, decided, .. } = resolved;
    let timing = decided.as_ref().map(|(_, timing)| timing);
    let of = |of: &Composition| language::to_json(&of.folder, of.writes_codes, timing);
    setup.composition.as_ref().map_or(Value::Null, of)
}

/// Returns the plan, and the model, device, files and memory that it is made with.
pub fn plan_json(resolved: &Resolved, resources: &Resources, audio_format: &str) -> Value {
    let Resolved { folder, request, plan, setup, .. } = resolved;
    let origin = folder.origin();
    let mut object = json!({
        "model": folder.name(),
        "model_path": folder.path().display().to_string(),
        "adapters": adapters::to_json(folder),
        "adapters_arrived": folder.adapters().and_then(|adapters| adapters.remaining()),
        "model_format": origin.format.to_string(),
        "model_types": origin.types,
        "device": setup.engine.device.to_string(),
        "dtype": dtype::name(setup.engine.dtype),
    });
    for (key, value) in plan.to_json() {
        object[key] = value;
    }
    if resolved.seeds().is_none() {
        // The noise is from a file.
        (object["seeds"], object["rng"]) = (Value::Null, Value::Null);
    }
    object["caption_tokens"] = resources.caption_tokens.into();
    object["lyric_tokens"] = resources.lyric_tokens.into();
    object["source"] = sounds::source_json(request, plan);
    object["references"] = sounds::references_json(request, plan);
    object["audio_format"] = audio_format.into();
    object["networks"] = resources.networks.iter().map(network_json).collect();
    object["weights_bytes"] = resources.weights_bytes.into();
    object["memory"] = memory_json(resources);
    object
}

fn network_json(used: &Used) -> Value {
    json!({
        "name": used.network.name(),
        "parameters": used.parameters,
        "bytes": used.bytes(),
        "dtype": dtype::name(used.dtype),
    })
}

fn memory_json(resources: &Resources) -> Value {
    let stage = |need: &MemoryNeed| {
        json!({
            "stage": need.stage.name,
            "weights_bytes": need.weights,
            "cache_bytes": need.cache,
            "work_bytes": need.work,
        })
    };
    json!({
        "stages": resources.needs.iter().map(stage).collect::<Vec<_>>(),
        "peak_bytes": resources.peak_bytes,
        "free_bytes": resources.free_bytes,
    })
}

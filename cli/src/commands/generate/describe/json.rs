//! Description of a decided run as JSON.

use acestep_engine::{
    Notice,
    device::{dtype, memory::MemoryNeed},
};
use serde_json::{Value, json};

use super::{
    super::{Resolved, adapters, sounds},
    Resources, Used,
};
use crate::{
    commands::{language, target::Target},
    fields,
};

/// Describes the whole run as an object: `plan`, `outputs`, `request`, `notices`. The notices of
/// the plan come before the `late` ones.
pub(in super::super) fn to_json(
    resolved: &Resolved,
    resources: &Resources,
    late: &[Notice],
) -> Value {
    let Resolved { plan, setup, notices, plan_notices, .. } = resolved;
    let outputs = &setup.outputs;
    let song = |(i, target): (usize, &Target)| {
        json!({
            "path": target,
            "seed": resolved.seeds().map(|seeds| seeds[i]),
            "seconds": plan.heard_seconds(),
            "samples": plan.heard_samples(),
            "sample_rate": plan.length.sample_rate,
        })
    };
    let timing = resolved.decided.as_ref().map(|(_, timing)| timing);
    let notices = notices.iter().chain(plan_notices).chain(late);
    json!({
        "outputs": outputs.songs.iter().enumerate().map(song).collect::<Vec<_>>(),
        "latents": outputs.latents().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "request": outputs.request.as_ref().map(|path| path.display().to_string()),
        "language_model": setup.composition.as_ref().map(|composition| {
            language::to_json(&composition.folder, composition.writes_codes, timing)
        }),
        "notices": fields::texts(notices),
        "plan": plan_json(resolved, resources),
    })
}

/// Returns the plan, and the model, device, files and memory that it is made with.
fn plan_json(resolved: &Resolved, resources: &Resources) -> Value {
    let Resolved { folder, request, plan, setup, .. } = resolved;
    let origin = folder.origin();
    let mut object = json!({
        "model": folder.name(),
        "model_path": folder.path().display().to_string(),
        "adapters": adapters::to_json(folder),
        "adapters_arrived": folder.adapters().and_then(|adapters| adapters.arrived()),
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
    object["audio_format"] = setup.encoding.format.name().into();
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

//! Description of a decided run as JSON.

use acestep_engine::{
    Notice,
    audio::loudness::Loudness,
    device::{dtype, memory::MemoryNeed},
};
use serde_json::{Map, Value, json};

use super::{
    super::{Resolved, adapters, outputs::Target, sounds},
    Resources, Used, sampler, seconds, shortest,
};
use crate::{commands::language, fields};

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
            "seconds": seconds(plan),
            "samples": plan.heard_samples(),
            "sample_rate": plan.sample_rate,
        })
    };
    let timing = resolved.decided.as_ref().map(|(_, timing)| timing);
    let notices = notices.iter().chain(plan_notices).chain(late);
    let networks = json!({
        "networks": resources.networks.iter().map(network_json).collect::<Vec<_>>(),
        "weights_bytes": resources.weights_bytes,
        "memory": memory_json(resources),
    });
    let parts =
        [model_json(resolved), song_json(resolved, resources), networks, sampler::to_json(plan)];
    let keys = |part| if let Value::Object(keys) = part { keys } else { Map::new() };
    json!({
        "outputs": outputs.songs.iter().enumerate().map(song).collect::<Vec<_>>(),
        "latents": outputs.latents().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "request": outputs.request.as_ref().map(|path| path.display().to_string()),
        "language_model": setup.composition.as_ref().map(|composition| {
            language::to_json(&composition.folder, composition.writes_codes, timing)
        }),
        "notices": fields::texts(notices),
        "plan": parts.into_iter().flat_map(keys).collect::<Map<_, _>>(),
    })
}

/// Returns the keys of `plan` about the model and the device.
fn model_json(resolved: &Resolved) -> Value {
    let Resolved { folder, setup, .. } = resolved;
    let origin = folder.origin();
    json!({
        "model": folder.name(),
        "model_path": folder.path().display().to_string(),
        "adapters": adapters::to_json(folder),
        "adapters_arrived": folder.adapters().and_then(|adapters| adapters.arrived()),
        "model_format": origin.format.to_string(),
        "model_types": origin.types,
        "device": setup.engine.device.to_string(),
        "dtype": dtype::name(setup.engine.dtype),
    })
}

/// Returns the keys of `plan` about the words and the sound.
fn song_json(resolved: &Resolved, resources: &Resources) -> Value {
    let Resolved { request, plan, setup, .. } = resolved;
    let follows = plan.has_codes() || plan.source.is_some();
    let [normalization_db, lufs] = match plan.loudness {
        Loudness::Peak(decibels) => [Some(shortest(decibels)), None],
        Loudness::Integrated(lufs) => [None, Some(shortest(lufs))],
        Loudness::AsIs | Loudness::Clipped(_) => [None, None],
    };
    json!({
        "caption": plan.caption,
        "lyrics": plan.lyrics,
        "vocal_language": plan.vocal_language,
        "caption_prompt": plan.caption_prompt,
        "lyric_prompt": plan.lyric_prompt,
        "caption_tokens": resources.caption_tokens,
        "lyric_tokens": resources.lyric_tokens,
        "duration": seconds(plan),
        "frames": plan.frames,
        "padded_frames": plan.padded_frames,
        "samples": plan.heard_samples(),
        "sample_rate": plan.sample_rate,
        "seeds": resolved.seeds(),
        "rng": resolved.seeds().map(|_| plan.noise.to_string()),
        "audio_codes": plan.codes_per_song(),
        "cover_steps": follows.then(|| plan.cover_steps()),
        "task_type": plan.task.name(),
        "source": sounds::source_json(request, plan),
        "references": sounds::references_json(request, plan),
        "region": sounds::region_json(plan),
        "chunk_mask_mode": plan.mask_mode.name(),
        "audio_format": setup.encoding.format.name(),
        "normalization_db": normalization_db,
        "lufs": lufs,
        "peak_clip": match plan.loudness {
            Loudness::Clipped(millionths) => Some(millionths),
            _ => None,
        },
        "fade_in_duration": plan.fades.0,
        "fade_out_duration": plan.fades.1,
        "vae_chunk": plan.tiling.chunk,
        "vae_overlap": plan.tiling.overlap,
    })
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

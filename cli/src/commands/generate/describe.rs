//! Description of a decided run, as text and as JSON.

mod sampler;

use acestep_engine::{
    Device, Residency,
    audio::loudness::Loudness,
    device::{
        dtype,
        memory::{self, MemoryInfo, MemoryNeed, bytes_of_weights},
    },
    error::size,
};
use acestep_music::{Network, Plan};
use anyhow::Result;
use burn::tensor::DType;
use serde_json::{Value, json};

pub(super) use sampler::infer_method;

use super::{Job, adapters, outputs::Target, run, sounds};
use crate::commands::language;

/// Costs of a run that are cheap to compute before it.
pub(super) struct Resources {
    /// The used networks.
    networks: Vec<Used>,
    /// Maximum bytes of weights in memory at the same time.
    weights_bytes: u64,
    /// Memory needs of each stage; the peak follows.
    needs: Vec<MemoryNeed>,
    peak_bytes: u64,
    room: MemoryInfo,
    caption_tokens: usize,
    lyric_tokens: usize,
}

/// A used network.
struct Used {
    network: Network,
    parameters: u64,
    /// Type of its weights.
    dtype: DType,
}

impl Used {
    fn of(network: Network, parameters: u64, job: &Job) -> Self {
        let is_widened = job.widened.contains(&network.with_article());
        let dtype = match network {
            _ if is_widened => DType::F32,
            Network::Dit | Network::LanguageModel => job.engine.dtype,
            _ => dtype::of_others(job.engine.dtype),
        };
        Self { network, parameters, dtype }
    }

    fn bytes(&self) -> u64 {
        bytes_of_weights(self.parameters, self.dtype)
    }
}

impl Resources {
    pub(super) fn of(job: &Job, residency: Residency) -> Result<Self> {
        let guided = job.plan.guidance.is_some();
        let conditioned = job.inputs.conditioning.is_some();
        let is_used = |network: &Network| match network {
            Network::TextEncoder => !conditioned,
            Network::Conditioner => !conditioned || guided,
            Network::AudioCodec => job.plan.has_codes() || job.plan.is_cover(),
            Network::Dit | Network::VaeDecoder => true,
            Network::VaeEncoder => run::needs_encoder(&job.inputs.sounds),
            Network::LanguageModel => false,
        };
        let mut networks = Vec::new();
        for network in Network::ALL.into_iter().filter(is_used) {
            networks.push(Used::of(network, job.folder.size(network)?.parameters, job));
        }
        let bytes = networks.iter().map(Used::bytes);
        let of_song: u64 = match residency {
            Residency::WhileUsed | Residency::Last => bytes.max().unwrap_or_default(),
            Residency::Kept => bytes.sum(),
        };
        let mut weights_bytes = of_song;
        let composer = job.composition.as_ref().map(|composition| &composition.folder);
        if let Some(folder) = composer.or(job.judge().map(|(folder, _)| folder)) {
            // It is unloaded before the song's first network is loaded, and loaded again after the
            // last.
            let parameters = folder.size()?.parameters;
            let model = Used::of(Network::LanguageModel, parameters, job);
            weights_bytes = of_song.max(model.bytes());
            networks.insert(0, model);
        }
        let [caption_tokens, lyric_tokens] = run::count_tokens(job)?;
        let needs = super::memory::needs(job)?;
        Ok(Self {
            networks,
            weights_bytes,
            peak_bytes: memory::peak(&needs, residency == Residency::Kept),
            needs,
            room: super::memory::room(job),
            caption_tokens,
            lyric_tokens,
        })
    }
}

impl Resources {
    /// Returns the peak memory, and the free memory of the device.
    fn at_once(&self, device: Device) -> String {
        let most = format!("{} at once, at most", size(self.peak_bytes));
        match self.room.free {
            Some(free) => format!("{most}; {device} has {} free", size(free)),
            None => most,
        }
    }
}

/// Returns a line such as `diffusion: 1.11 MB of weights, 2.00 MB of keys and values, 3.00 MB of
/// work`.
fn stage(need: &MemoryNeed) -> String {
    let cache = match need.cache {
        0 => String::new(),
        bytes => format!("{} of keys and values, ", size(bytes)),
    };
    let (name, weights) = (need.stage.name, size(need.weights));
    format!("{name}: {weights} of weights, {cache}about {} of work", size(need.work))
}

/// Returns a line such as `turbo on cpu · 30.0 s · 8 steps · seed 1234567`.
pub(super) fn headline(job: &Job) -> String {
    format!(
        "{}{} on {} · {:.1} s · {} · {}",
        job.folder.name(),
        adapters::names(&job.folder),
        job.engine,
        seconds(&job.plan),
        counted(job.plan.steps(), "step"),
        origin(job)
    )
}

/// Returns the source of the noise: `seed 7`, `seeds 7, 8`, a file, or a file and seeds for the
/// steps.
pub(super) fn origin(job: &Job) -> String {
    let noise = job.inputs.noise.as_ref().map(|(path, _)| path);
    let file = noise.or(job.inputs.conditioning.as_ref().map(|(folder, _)| folder));
    let seeds = job.seeds().map(of_seeds);
    let file = file.map(|path| format!("noise of {}", path.display()));
    file.into_iter().chain(seeds).collect::<Vec<_>>().join(", ")
}

/// Describes the whole run, one subject per line.
pub(super) fn text(job: &Job, resources: &Resources) -> String {
    let Job { plan, folder, engine, .. } = job;
    let dtype = dtype::name(engine.dtype);
    let mut lines: Vec<(&str, String)> = vec![
        (
            "model",
            format!(
                "{} ({}{}) on {}, {dtype}",
                folder.name(),
                folder.path().display(),
                language::whose(&folder.origin()),
                engine.device
            ),
        ),
        (
            "song",
            format!(
                "{:.2} s: {} of 1/{} s ({} sampled), {} samples a channel at {} Hz",
                seconds(plan),
                counted(plan.frames, "frame"),
                plan.sample_rate as usize / plan.hop,
                plan.padded_frames,
                plan.heard_samples(),
                plan.sample_rate,
            ),
        ),
        ("caption", format!("{} ({} tokens)", first_line(&plan.caption), resources.caption_tokens)),
        ("lyrics", lyrics(plan, resources)),
        (
            "noise",
            match job.seeds() {
                Some(_) => format!("{}, {}", origin(job), plan.noise),
                None => origin(job),
            },
        ),
    ];
    let of_model = adapters::lines(folder).into_iter().map(|line| ("adapter", line));
    lines.splice(1..1, of_model);
    lines.extend(sounds::lines(&job.asked.request, plan));
    lines.extend(sampler::lines(plan));
    if plan.has_codes() {
        let codes = counted(plan.codes_per_song(), "code");
        let each = if plan.codes.len() > 1 { " for each song" } else { "" };
        lines.push(("codes", format!("{codes}{each}, followed for {} steps", plan.cover_steps())));
    }
    if let Some(composition) = &job.composition {
        let what = if composition.writes_codes { ", and codes" } else { "" };
        let name = composition.folder.name();
        let whose = language::whose(&composition.folder.origin());
        let whose = whose.strip_prefix(": ").map(|whose| format!(" ({whose})")).unwrap_or_default();
        lines.push((
            "plan",
            format!("{name}{whose} decides what is left open{what}; above is the song without it"),
        ));
    }
    for used in &resources.networks {
        let (count, size) = (short(used.parameters), size(used.bytes()));
        let (network, dtype) = (used.network, dtype::name(used.dtype));
        lines.push(("network", format!("{network}: {count} parameters, {size} in {dtype}")));
    }
    lines.extend(resources.needs.iter().map(|need| ("memory", stage(need))));
    lines.push(("memory", resources.at_once(engine.device)));
    for path in job.outputs.songs.iter().map(Target::to_string) {
        lines.push(("file", path));
    }
    for path in job.outputs.latents.iter().flat_map(|(paths, _)| paths) {
        lines.push(("file", path.display().to_string()));
    }
    if let Some(path) = &job.outputs.request {
        lines.push(("file", path.display().to_string()));
    }
    lines.into_iter().map(|(what, text)| format!("{what:<10}{text}\n")).collect()
}

/// Describes the whole run as an object: `plan`, `outputs`, `request`, `notices`.
pub(super) fn to_json(job: &Job, resources: &Resources) -> Value {
    let Job { plan, folder, engine, .. } = job;
    let follows = plan.has_codes() || plan.source.is_some();
    let song = |(i, target): (usize, &Target)| {
        json!({
            "path": target.to_string(),
            "seed": job.seeds().map(|seeds| seeds[i]),
            "seconds": seconds(plan),
            "samples": plan.heard_samples(),
            "sample_rate": plan.sample_rate,
        })
    };
    let network = |used: &Used| {
        json!({
            "name": used.network.name(),
            "parameters": used.parameters,
            "bytes": used.bytes(),
            "dtype": dtype::name(used.dtype),
        })
    };
    let mut object = json!({
        "outputs": job.outputs.songs.iter().enumerate().map(song).collect::<Vec<_>>(),
        "latents": job.outputs.latents.iter().flat_map(|(paths, _)| paths)
            .map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "request": job.outputs.request.as_ref().map(|path| path.display().to_string()),
        "language_model": job.composition.as_ref().map(|composition| {
            language::to_json(&composition.folder, composition.writes_codes, job.timing.as_ref())
        }),
        "notices": job.notices.iter().map(|notice| notice.0.clone()).collect::<Vec<_>>(),
        "plan": {
            "model": folder.name(),
            "model_path": folder.path().display().to_string(),
            "adapters": adapters::to_json(folder),
            "adapters_arrived": folder.adapters().and_then(|adapters| adapters.arrived()),
            "model_format": folder.origin().format.to_string(),
            "model_types": folder.origin().types,
            "device": engine.device.to_string(),
            "dtype": dtype::name(engine.dtype),
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
            "seeds": job.seeds(),
            "rng": job.seeds().map(|_| plan.noise.to_string()),
            "audio_codes": plan.codes_per_song(),
            "cover_steps": follows.then(|| plan.cover_steps()),
            "task_type": plan.task.name(),
            "source": sounds::source_json(&job.asked.request, plan),
            "references": sounds::references_json(&job.asked.request, plan),
            "region": sounds::region_json(plan),
            "chunk_mask_mode": plan.mask_mode.name(),
            "audio_format": job.encoding.format.name(),
            "normalization_db": match plan.loudness {
                Loudness::Peak(decibels) => Some(shortest(decibels)),
                _ => None,
            },
            "lufs": match plan.loudness {
                Loudness::Integrated(lufs) => Some(shortest(lufs)),
                _ => None,
            },
            "peak_clip": match plan.loudness {
                Loudness::Clipped(millionths) => Some(millionths),
                _ => None,
            },
            "fade_in_duration": plan.fades.0,
            "fade_out_duration": plan.fades.1,
            "vae_chunk": plan.tiling.chunk,
            "vae_overlap": plan.tiling.overlap,
            "networks": resources.networks.iter().map(network).collect::<Vec<_>>(),
            "weights_bytes": resources.weights_bytes,
            "memory": memory_json(resources),
        },
    });
    if let Some(plan_json) = object["plan"].as_object_mut() {
        plan_json.extend(sampler::to_json(plan));
    }
    object
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
        "free_bytes": resources.room.free,
    })
}

/// Converts an f32 to its shortest decimal: 0.1, not 0.10000000149011612.
pub(super) fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

/// Returns a count such as `1 step` or `2 steps`.
pub(crate) fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Returns the audible length of each song.
fn seconds(plan: &Plan) -> f64 {
    plan.heard_samples() as f64 / f64::from(plan.sample_rate)
}

fn lyrics(plan: &Plan, resources: &Resources) -> String {
    let language = &plan.vocal_language;
    let tokens = resources.lyric_tokens;
    match plan.lyrics.lines().count() {
        0 => format!("none, language {language} ({tokens} tokens)"),
        1 => format!("{}, language {language} ({tokens} tokens)", first_line(&plan.lyrics)),
        lines => format!("{lines} lines, language {language} ({tokens} tokens)"),
    }
}

fn first_line(text: &str) -> String {
    const SHOWN: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= SHOWN && line.len() == text.len() {
        return line.to_owned();
    }
    line.chars().take(SHOWN).chain("...".chars()).collect()
}

/// Returns a text such as `seed 7` or `seeds 7, 8`.
fn of_seeds(seeds: &[u64]) -> String {
    let listed = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    if seeds.len() == 1 { format!("seed {listed}") } else { format!("seeds {listed}") }
}

/// Formats a number with three digits: `91.0 k`, `2.39 G`.
fn short(n: u64) -> String {
    let (unit, name) = match n {
        0..1_000_000 => (1e3, "k"),
        1_000_000..1_000_000_000 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    let value = n as f64 / unit;
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_three_digits() {
        for (n, text) in [
            (35_300, "35.3 k"),
            (363_840, "364 k"),
            (999, "1.00 k"),
            (1_113_408, "1.11 M"),
            (2_394_000_000, "2.39 G"),
            (12_345_000_000, "12.3 G"),
        ] {
            assert_eq!(short(n), text);
        }
        assert_eq!(size(4_800_000_000), "4.80 GB");
    }

    #[test]
    fn an_f32_is_written_as_a_person_would() {
        assert_eq!(shortest(0.1), 0.1);
        assert_ne!(f64::from(0.1f32), 0.1);
        assert_eq!(shortest(-1.0), -1.0);
    }

    #[test]
    fn one_step_is_no_steps() {
        assert_eq!(counted(1, "step"), "1 step");
        assert_eq!(counted(8, "step"), "8 steps");
    }
}

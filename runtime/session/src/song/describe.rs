//! Description of a decided run, as lines and as JSON.

mod json;
mod sounds;

use acestep_engine::{
    Device, Error, Residency,
    device::{
        dtype,
        memory::{self, MemoryNeed, bytes_of_weights},
    },
    error::{counted, short, size},
    machine,
};
use acestep_music::{Network, Plan, plan::of_seeds};
use burn::tensor::DType;

pub use json::{language_json, plan_json};

use super::{Resolved, Setup, adapters};
use crate::language::whose;

/// Costs of a run that are cheap to compute before it.
#[derive(Debug)]
pub struct Resources {
    /// The used networks.
    networks: Vec<Used>,
    /// Maximum bytes of weights in memory at the same time.
    weights_bytes: u64,
    /// Memory needs of each stage; the peak follows.
    needs: Vec<MemoryNeed>,
    peak_bytes: u64,
    /// Free memory of the device, if it is known.
    free_bytes: Option<u64>,
    caption_tokens: usize,
    lyric_tokens: usize,
}

/// A used network.
#[derive(Debug)]
struct Used {
    network: Network,
    parameters: u64,
    /// Type of its weights.
    dtype: DType,
}

impl Used {
    /// Describes a network; the `widened` ones were run again in f32.
    fn of(network: Network, parameters: u64, dtype: DType, widened: &[&str]) -> Self {
        let dtype = match network {
            _ if widened.contains(&network.with_article()) => DType::F32,
            Network::Dit | Network::LanguageModel => dtype,
            _ => dtype::of_others(dtype),
        };
        Self { network, parameters, dtype }
    }

    fn bytes(&self) -> u64 {
        bytes_of_weights(self.parameters, self.dtype)
    }
}

impl Resources {
    /// Measures the resources of a run; the `widened` networks were run again in f32.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn of(resolved: &Resolved, widened: &[&str]) -> Result<Self, Error> {
        let Resolved { plan, folder, setup, .. } = resolved;
        let Setup { engine, residency, composition, inputs, .. } = &**setup;
        let used = |network, parameters| Used::of(network, parameters, engine.dtype, widened);
        let mut networks = Vec::new();
        let has_condition = inputs.conditioning.is_some();
        for network in Network::ALL.into_iter().filter(|&of| plan.uses(of, has_condition)) {
            networks
                .push(used(network, folder.size(network).map_err(Error::checkpoint)?.parameters));
        }
        let bytes = networks.iter().map(Used::bytes);
        let mut weights_bytes: u64 = match residency {
            Residency::WhileUsed | Residency::LastUsed => bytes.max().unwrap_or_default(),
            Residency::Kept => bytes.sum(),
        };
        let composer = composition.as_ref().map(|composition| &composition.folder);
        if let Some(folder) = composer.or(resolved.judge().map(|(folder, _)| folder)) {
            // It is unloaded before the song's first network is loaded, and loaded again after the
            // last.
            let model =
                used(Network::LanguageModel, folder.size().map_err(Error::checkpoint)?.parameters);
            weights_bytes = weights_bytes.max(model.bytes());
            networks.insert(0, model);
        }
        let words = &plan.words;
        let [caption_tokens, lyric_tokens] =
            super::memory::count_tokens(resolved, [&words.caption_prompt, &words.lyric_prompt])?;
        let needs = super::memory::needs(resolved)?;
        Ok(Self {
            networks,
            weights_bytes,
            peak_bytes: memory::peak(&needs, *residency == Residency::Kept),
            needs,
            free_bytes: machine::memory_of(engine.device).free,
            caption_tokens,
            lyric_tokens,
        })
    }

    /// Returns the peak memory, and the free memory of the device.
    fn at_once(&self, device: Device) -> String {
        let most = format!("{} at once, at most", size(self.peak_bytes));
        match self.free_bytes {
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
pub fn headline(resolved: &Resolved) -> String {
    let Resolved { plan, folder, setup, .. } = resolved;
    format!(
        "{}{} on {} · {:.1} s · {} · {}",
        folder.name(),
        adapters::names(folder),
        setup.engine,
        plan.output_seconds(),
        counted(plan.steps(), "step"),
        origin(resolved)
    )
}

/// Returns the source of the noise: `seed 7`, `seeds 7, 8`, a file, or a file and seeds for the
/// steps.
pub fn origin(resolved: &Resolved) -> String {
    let inputs = &resolved.setup.inputs;
    let noise = inputs.noise.as_ref().map(|(path, _)| path);
    let file = noise.or(inputs.conditioning.as_ref().map(|(folder, _)| folder));
    let seeds = resolved.seeds().map(of_seeds);
    let file = file.map(|path| format!("noise of {}", path.display()));
    file.into_iter().chain(seeds).collect::<Vec<_>>().join(", ")
}

/// Describes the whole run, one subject per line, without the files that will be written.
pub fn lines(resolved: &Resolved, resources: &Resources) -> Vec<(&'static str, String)> {
    let Resolved { plan, folder, setup, .. } = resolved;
    let engine = setup.engine;
    let dtype = dtype::name(engine.dtype);
    let mut lines: Vec<(&'static str, String)> = vec![
        (
            "model",
            format!(
                "{} ({}{}) on {}, {dtype}",
                folder.name(),
                folder.path().display(),
                whose(&folder.origin()),
                engine.device
            ),
        ),
        (
            "song",
            format!(
                "{:.2} s: {} of 1/{} s ({} sampled), {} samples a channel at {} Hz",
                plan.output_seconds(),
                counted(plan.length.frames, "frame"),
                plan.length.sample_rate as usize / plan.length.hop,
                plan.length.padded_frames,
                plan.output_samples(),
                plan.length.sample_rate,
            ),
        ),
        (
            "caption",
            format!("{} ({} tokens)", first_line(&plan.words.caption), resources.caption_tokens),
        ),
        ("lyrics", lyrics(plan, resources)),
        (
            "noise",
            match resolved.seeds() {
                Some(_) => format!("{}, {}", origin(resolved), plan.noise.source),
                None => origin(resolved),
            },
        ),
    ];
    let of_model = adapters::lines(folder).into_iter().map(|line| ("adapter", line));
    lines.splice(1..1, of_model);
    lines.extend(sounds::lines(&resolved.request, plan));
    lines.extend(plan.lines());
    if plan.source.has_codes() {
        let codes = counted(plan.source.codes_per_song(), "code");
        let each = if plan.source.codes.len() > 1 { " for each song" } else { "" };
        let steps = counted(plan.cover_steps(), "step");
        lines.push(("codes", format!("{codes}{each}, followed for {steps}")));
    }
    if let Some(composition) = &setup.composition {
        let what = if composition.writes_codes { ", and codes" } else { "" };
        let name = composition.folder.name();
        let whose = whose(&composition.folder.origin());
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
    lines
}

fn lyrics(plan: &Plan, resources: &Resources) -> String {
    let language = &plan.words.vocal_language;
    let tokens = resources.lyric_tokens;
    match plan.words.lyrics.lines().count() {
        0 => format!("none, language {language} ({tokens} tokens)"),
        1 => format!("{}, language {language} ({tokens} tokens)", first_line(&plan.words.lyrics)),
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

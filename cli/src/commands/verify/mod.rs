//! `acestep verify`: stored results of the reference against this machine's.
//!
//! Every stored output is one case. A case runs through the code that `generate` uses, or it is
//! reported as skipped with the reason; it is never passed without being computed.

mod built_in;
mod checkpoints;
mod e2e;
mod golden;
mod language;
mod logic;
mod networks;
mod noise;
mod page;
mod plans;
mod rules;
mod sampling;
mod sheet;
mod tolerance;
mod vocabularies;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use acestep_model::{Backend, Place};
use acestep_runtime::{Device, Job};
use anyhow::{Context, Result};
use burn::tensor::DType;
use serde_json::json;

use crate::{
    args::{Global, device::OnDevice},
    commands::engine,
    error::{self, Refusal},
    interrupt, report,
};
use checkpoints::Networks;
use golden::Set;
use page::Page;
pub(super) use sheet::Case;
use sheet::Sheet;
use vocabularies::{Real, Vocabularies};

/// The flags of `verify`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// A directory of goldens: tensors and text of the reference. Without it a small built-in set
    /// is used.
    #[arg(long, value_name = "DIR")]
    goldens: Option<PathBuf>,

    /// The directory with the checkpoints that the goldens were made with, as directories or GGUF
    /// files; by default `checkpoints_NAME` beside the goldens `NAME`.
    #[arg(long, value_name = "DIR", requires = "goldens")]
    models: Option<PathBuf>,

    /// A directory with the released tokenizers, for the goldens that were made with the real
    /// vocabulary: the folder of a language model (acestep-5Hz-lm-*) or of Qwen3-Embedding-0.6B, or
    /// the folder that holds both. Their weights are not needed.
    #[arg(long, value_name = "DIR")]
    tokenizer: Option<PathBuf>,

    #[command(flatten)]
    place: OnDevice,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command: exit code 1 if a case fails.
pub(crate) fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let (engine, notices) = engine::open(&args.place.in_f32())?;
    notices.iter().for_each(|notice| global.report().note(&notice.0));
    let real = args.tokenizer.as_deref().map(Real::open).transpose()?;
    let with = Given { goldens: args.goldens.as_deref(), models: args.models.as_deref() };
    let cases = compare(with, real.as_ref(), engine.device)?;
    let count = |pass: Option<bool>| cases.iter().filter(|case| case.pass == pass).count();
    let (passed, failed, skipped) = (count(Some(true)), count(Some(false)), count(None));
    let device = engine.to_string();
    if args.json {
        let object = serde_json::to_string_pretty(&json!({
            "device": device,
            "passed": passed,
            "failed": failed,
            "skipped": skipped,
            "cases": cases,
        }))?;
        report::bytes(format!("{object}\n").as_bytes())?;
    } else {
        let quiet = global.report().is_quiet();
        let shown = cases.iter().filter(|case| !quiet || case.pass == Some(false));
        for line in shown.map(line) {
            report::bytes(format!("{line}\n").as_bytes())?;
        }
        let counts = format!("{passed} passed, {failed} failed, {skipped} skipped");
        report::bytes(format!("{device}: {counts}\n").as_bytes())?;
    }
    if passed + failed == 0 {
        let refusal = Refusal::new("nothing could be compared, so nothing is proved");
        return Err(refusal.hint("pass --models DIR, the checkpoints of these goldens").into());
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(error::FAILED) })
}

/// What to compare with; nothing = the built-in set.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Given<'a> {
    /// The directory of the goldens.
    pub(super) goldens: Option<&'a Path>,
    /// The directory of their checkpoints.
    pub(super) models: Option<&'a Path>,
}

/// The sets of goldens in a directory: the folders in it that are sets, unless it is one itself.
pub(super) fn sets(goldens: &Path) -> Vec<PathBuf> {
    let listing = std::fs::read_dir(goldens).into_iter().flatten();
    let mut sets: Vec<_> = listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sets.retain(|path| golden::is_set(path));
    sets.sort();
    if sets.is_empty() || golden::is_set(goldens) { vec![goldens.to_owned()] } else { sets }
}

/// Whether a set of goldens can be read.
///
/// # Errors
/// What is wrong with it.
pub(super) fn readable(goldens: &Path) -> Result<()> {
    Set::read(goldens).map(drop)
}

/// Computes every case of the goldens without the real vocabulary.
///
/// # Errors
/// If they or the checkpoints cannot be read, or the device is absent.
pub(super) fn cases(given: Given<'_>, device: Device) -> Result<Vec<Case>> {
    compare(given, None, device)
}

fn compare(given: Given<'_>, real: Option<&Real>, device: Device) -> Result<Vec<Case>> {
    let (set, networks) = match given.goldens {
        Some(goldens) => {
            let networks = match models_dir(goldens, given.models)? {
                Some(models) => Networks::find(&models)?,
                // Some sets need none; cases of the others say what is missing.
                None => Networks::default(),
            };
            (Set::read(goldens)?, networks)
        }
        None => (built_in::set()?, Networks::built_in()?),
    };
    // What is stored is the reference's f32, but for some cases, which change the type themselves.
    device.run(DType::F32, Verify { set: &set, networks: &networks, real })?
}

/// The checkpoints' directory: what was typed, or what lies beside the goldens.
fn models_dir(goldens: &Path, typed: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(models) = typed {
        return Ok(Some(models.to_owned()));
    }
    let name = goldens.canonicalize().map_err(|error| {
        Refusal::new(format!("there are no goldens in `{}`", goldens.display()))
            .because(error)
            .hint("--goldens names a directory such as tests/goldens/a of the source")
    })?;
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = goldens.join("..").join(format!("checkpoints_{name}"));
    Ok(beside.is_dir().then_some(beside))
}

/// A case as a line of the table.
fn line(case: &Case) -> String {
    let (mark, detail) = match (case.pass, &case.skipped) {
        (Some(true), _) => ("pass", numbers(case)),
        (Some(false), _) => ("FAIL", numbers(case)),
        (None, reason) => ("skip", reason.clone().unwrap_or_default()),
    };
    let name = format!("{}: {}", case.file, case.case);
    format!("{mark}  {:<16}  {name:<66}  {detail}", case.component)
}

fn numbers(case: &Case) -> String {
    if let (Some(error), Some(allowed)) = (case.relative_rms, case.tolerance) {
        return format!("relative rms error {error:.1e}, tolerance {allowed:.1e}");
    }
    match (case.max_abs, case.tolerance) {
        (Some(worst), Some(allowed)) if allowed > 0.0 => {
            format!("max abs error {worst:.1e}, tolerance {allowed:.1e}")
        }
        (Some(0.0), _) => "equal".to_owned(),
        (Some(worst), _) => format!("max abs error {worst:.1e}, must be equal"),
        (None, _) if case.pass == Some(true) => "equal".to_owned(),
        (None, _) => "another shape or value, or not finite".to_owned(),
    }
}

struct Verify<'a> {
    set: &'a Set,
    networks: &'a Networks,
    real: Option<&'a Real>,
}

impl Job for Verify<'_> {
    type Output = Result<Vec<Case>>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let mut cases = Vec::new();
        for file in self.set.names() {
            if interrupt::was_pressed() {
                return Err(acestep_runtime::Error::Cancelled.into());
            }
            let of_file = match file.strip_suffix(".safetensors") {
                Some(kind) => self.tensors::<B>(file, kind, &place),
                None => self.text::<B>(file, &place),
            };
            cases.extend(of_file.with_context(|| format!("cannot verify {file}"))?);
        }
        Ok(cases)
    }
}

impl Verify<'_> {
    fn tensors<B: Backend>(&self, file: &str, kind: &str, place: &Place<B>) -> Result<Vec<Case>> {
        let golden = self.set.tensors(file)?;
        let mut sheet = Sheet::new(&golden, component(kind));
        let s = &mut sheet;
        let Networks { turbo, base, vae, text, language, whole } = self.networks;
        macro_rules! with {
            ($network:expr, $what:literal, |$open:ident| $run:expr) => {
                match $network {
                    Some($open) => $run?,
                    None => {
                        s.skip_all(concat!("no ", $what, " among the checkpoints"), |_| true);
                    }
                }
            };
        }
        match kind {
            "vae_decode" => with!(vae, "vae", |v| networks::vae_decode::<B>(s, v, place)),
            "vae_encode" => with!(vae, "vae", |v| networks::vae_encode::<B>(s, v, place)),
            "vae_tiled" => with!(vae, "vae", |v| networks::vae_tiled::<B>(s, v, place)),
            "dit_time" => with!(turbo, "turbo model", |m| networks::dit_time::<B>(s, m, place)),
            "dit_forward" => {
                with!(turbo, "turbo model", |m| networks::dit_forward::<B>(s, m, place));
            }
            "bf16_time" => {
                let forward = self.set.tensors("dit_forward.safetensors").ok();
                let inputs = forward.as_ref();
                with!(turbo, "turbo model", |m| networks::bf16_time::<B>(s, m, inputs, place));
            }
            "cond_encoder" => {
                with!(turbo, "turbo model", |m| networks::cond_encoder::<B>(s, m, place));
            }
            "audio_tokenizer" => {
                with!(turbo, "turbo model", |m| networks::audio_tokenizer::<B>(s, m, place));
            }
            "silence" => with!(turbo, "turbo model", |m| networks::silence::<B>(s, m, place)),
            "text_encoder" => {
                with!(text, "text encoder", |t| networks::text_encoder::<B>(s, t, place));
            }
            "sampling_turbo" => {
                with!(turbo, "turbo model", |m| sampling::runs::<B>(s, m, true, place));
            }
            "sampling_base" => {
                with!(base, "base model", |m| sampling::runs::<B>(s, m, false, place));
            }
            "guidance" => sampling::guidance::<B>(s, &place.device)?,
            "e2e" => with!(whole, "complete turbo model", |m| e2e::run::<B>(s, m, place)),
            "rng" => noise::streams(s)?,
            "lm" => match language {
                Some(language) => language::scores::<B>(s, language, place)?,
                None => s.skip_all(language::NO_CHECKPOINT, |_| true),
            },
            _ => {}
        }
        Ok(sheet.finish())
    }

    fn text<B: Backend>(&self, file: &str, place: &Place<B>) -> Result<Vec<Case>> {
        let content = self.set.json(file)?;
        let Networks { text, language, .. } = self.networks;
        let vocabularies =
            Vocabularies { real: self.real, text: text.as_ref(), language: language.as_ref() };
        let name = file.rsplit('/').next().unwrap_or(file);
        Ok(match name {
            "dit_prompts.json" => logic::prompts(file, &content, vocabularies)?,
            "tokenizer_cases.json" => logic::tokens(file, &content, vocabularies)?,
            "lm_e2e.json" => language::runs::<B>(file, &content, language.as_ref(), place)?,
            "lm_prompts.json" => plans::prompts(file, &content, vocabularies)?,
            "cot_yaml.json" => plans::texts(file, &content)?,
            "lm_sampling.json" => plans::sampling(file, &content),
            "constrained_decoding.json" => rules::runs(file, &content, vocabularies)?,
            "prefix_trees_tiny.json" => rules::trees(file, &content, "tiny", vocabularies)?,
            "prefix_trees_full.json" => rules::trees(file, &content, "full", vocabularies)?,
            // A protocol of the goldens' making, not an output.
            "xcheck_diffusers.json" => Vec::new(),
            _ => Page::new(file, "text")
                .skip_entries(&content, "this version does not know this file"),
        })
    }
}

/// What a file of goldens tests.
fn component(kind: &str) -> &'static str {
    match kind {
        "vae_decode" | "vae_tiled" => "VAE decoder",
        "vae_encode" => "VAE encoder",
        "dit_time" | "dit_forward" | "bf16_time" => "DiT",
        "cond_encoder" => "condition encoder",
        "audio_tokenizer" => "audio codes",
        "silence" => "silence",
        "text_encoder" => "text encoder",
        "sampling_turbo" | "sampling_base" | "guidance" => "flow matching",
        "e2e" => "whole song",
        "rng" => "noise",
        "lm" => language::COMPONENT,
        _ => "unknown",
    }
}

//! `acestep warmup`: makes a song that no one hears, so that a card's kernels are compiled and tuned
//! before one is wanted.

use std::{ffi::OsString, path::Path, process::ExitCode, time::Instant};

use acestep_import::{KNOWN_MODELS, Layout, TINY};
use acestep_runtime::{Device, device::kernels, error::size};
use anyhow::{Context, Result};

use super::{engine, generate};
use crate::{
    args::{self, Global, doctor::Warmup},
    error::Refusal,
    progress, settings,
};

/// Runs the command.
///
/// # Errors
/// Those of `generate`.
pub(crate) fn run(args: &Warmup, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    let (engine, notices) = engine::open(&args.place)?;
    let others = notices.iter().filter(|notice| notice.0 != engine::FIRST_RUN);
    others.for_each(|notice| report.note(&notice.0));
    if engine.device == Device::Cpu {
        report.line("cpu: a processor's kernels are compiled already, there is nothing to do");
        return Ok(ExitCode::SUCCESS);
    }
    let Some(kept) = settings::kernels_dir() else {
        return Err(Refusal::new("there is no home to keep compiled kernels in")
            .hint("set ACESTEP_CACHE_DIR to a folder")
            .into());
    };
    let layout = Layout::new(args.models_dir.clone().or_else(settings::models_dir));
    let model = args.model.clone().unwrap_or_else(|| {
        let [default, ..] = &KNOWN_MODELS;
        let is_here = layout.resolve(default.name).is_ok();
        if is_here { default.name } else { TINY }.to_owned()
    });
    if model == TINY {
        report.note(
            "the kernels of the built-in model are warmed up: those of a released model, which are \
             more and larger, want --model",
        );
    }
    let before = kernels::size(&kept);
    let start = Instant::now();
    let folder = tempfile::tempdir().context("cannot make a folder for the song")?;
    let song = args::generate_args(words(args, engine.device, &model, &layout, folder.path()))?;
    generate::rehearse(&song, report)?;
    let after = kernels::size(&kept);
    report.line(&format!(
        "{engine}: warm after {} · {} of kernels in {}, {} of them new",
        progress::seconds(start.elapsed()),
        size(after),
        kept.display(),
        size(after.saturating_sub(before)),
    ));
    Ok(ExitCode::SUCCESS)
}

/// The song as `generate` is asked for it. The language model plans it if there is one.
fn words(
    args: &Warmup,
    device: Device,
    model: &str,
    layout: &Layout,
    folder: &Path,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = [
        "a test of all stages",
        "--lyrics",
        "[Verse]\nla la la",
        "--seed",
        "1",
        "--model",
        model,
        "--device",
        &device.to_string(),
        "--dtype",
        &args.place.dtype,
        "--duration",
        &args.duration.to_string(),
    ]
    .map(OsString::from)
    .to_vec();
    let language_model = args.lm_model.clone().or_else(|| match model {
        TINY => Some(TINY.to_owned()),
        _ => layout.resolve_language_model(None).ok().map(|found| found.name),
    });
    match language_model {
        Some(name) => {
            words.extend(["--thinking", "--lm-model", &name].map(OsString::from));
            if name == TINY {
                // Draws in which a random network soon comes to an end.
                let draws = ["--lm-temperature", "2", "--lm-top-p", "1"];
                words.extend(draws.map(OsString::from));
            }
        }
        None => words.push("--no-thinking".into()),
    }
    if let Some(dir) = &args.models_dir {
        words.extend(["--models-dir".into(), dir.clone().into_os_string()]);
    }
    words.extend(["--output".into(), folder.join("song.wav").into_os_string()]);
    words
}

//! `acestep warmup`: makes a song and discards it, so that a GPU's kernels are compiled and tuned.

use std::{ffi::OsString, path::Path, process::ExitCode, time::Instant};

use acestep_engine::{
    Device,
    device::kernels::{self, Kernels},
    error::size,
};
use acestep_import::{BUILT_IN_MODELS, Layout, TINY, acestep::MODELS, built_in};
use anyhow::{Context, Result};

use super::{
    engine::{self, Started},
    generate,
};
use crate::{
    args::{self, Global, doctor::Warmup},
    error::CliError,
    progress, settings,
};

pub(crate) fn run(args: &Warmup, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    let Started { engine, kernels: kept, notices } = engine::start(&args.place)?;
    if engine.device == Device::Cpu {
        report.line("cpu: a processor's kernels are compiled already, there is nothing to do");
        return Ok(ExitCode::SUCCESS);
    }
    let kept = folder(&kept)?;
    report.notes(&notices);
    let layout = settings::layout();
    let model = args.model.clone().or_else(settings::configured_model).unwrap_or_else(|| {
        let [default, ..] = &MODELS;
        let is_here = layout.resolve(default.name).is_ok();
        if is_here { default.name } else { BUILT_IN_MODELS[0].name }.to_owned()
    });
    if built_in(&model).is_some() {
        report.note(
            "the kernels of the built-in model are warmed up: those of a released model, which are \
             more and larger, want --model",
        );
    }
    let before = kernels::size(kept);
    let start = Instant::now();
    let folder = tempfile::tempdir().context("cannot make a folder for the song")?;
    // An explicit request file keeps the configured defaults of requests out.
    let empty = folder.path().join("request.json");
    std::fs::write(&empty, "{}").context("cannot write a request for the song")?;
    let song = args::generate_args(words(args, engine.device, &model, &layout, folder.path()))?;
    generate::rehearse(&song, report)?;
    let after = kernels::size(kept);
    report.line(&format!(
        "{engine}: warm after {} · {} of kernels in {}, {} of them new",
        progress::seconds(start.elapsed()),
        size(after),
        kept.display(),
        size(after.saturating_sub(before)),
    ));
    Ok(ExitCode::SUCCESS)
}

/// Returns the folder of kernels. Without one, minutes of work would be lost.
fn folder(kernels: &Kernels) -> Result<&Path, CliError> {
    kernels.folder.as_deref().ok_or_else(|| {
        let why =
            kernels.notice.as_ref().map_or("compiled kernels are not kept", |why| why.0.as_str());
        CliError::new(why).hint("set ACESTEP_CACHE_DIR to a folder you may write to")
    })
}

/// Returns the command line for `generate`. The language model plans the song if there is one.
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
    words.extend(["--request".into(), folder.join("request.json").into_os_string()]);
    let configured = args.lm_model.clone().or_else(settings::lm_model);
    let language_model = configured.or_else(|| match built_in(model) {
        Some(model) => Some(model.name.to_owned()),
        None => layout.resolve_language_model(None).ok().map(|found| found.name),
    });
    match language_model {
        Some(name) => {
            words.extend(["--thinking", "--lm-model", &name].map(OsString::from));
            if name == TINY {
                // With these settings a random network soon ends its answer.
                let draws = ["--lm-temperature", "2", "--lm-top-p", "1"];
                words.extend(draws.map(OsString::from));
            }
        }
        None => words.push("--no-thinking".into()),
    }
    words.extend(["--output".into(), folder.join("song.wav").into_os_string()]);
    words
}

#[cfg(test)]
mod tests {
    use acestep_engine::Notice;

    use super::*;
    use crate::{error, exit, hint};

    #[test]
    fn nothing_is_compiled_where_it_cannot_be_kept() {
        let notice = "compiled kernels are not kept: cannot write to `x`: it is a file";
        let kernels = Kernels { folder: None, is_first: true, notice: Some(Notice(notice.into())) };
        let refused = anyhow::Error::from(folder(&kernels).expect_err("it cannot be kept"));
        assert_eq!(refused.to_string(), notice);
        assert_eq!(error::code_of(&refused), exit::FAILED);
        assert!(hint::of(&refused).is_some_and(|hint| hint.contains("ACESTEP_CACHE_DIR")));
    }
}

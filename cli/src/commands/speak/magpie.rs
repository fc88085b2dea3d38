//! `acestep speak` with Magpie TTS.

use std::{path::Path, process::ExitCode};

use acestep_import::{Layout, MAGPIE_MODELS, Magpie};
use acestep_model::speech::magpie::Files as _;
use acestep_session::speech::magpie as speech;
use acestep_speech::{Options, magpie::Request};
use anyhow::{Context, Result};

use super::output::{Output, Outputs};
use crate::{
    args::speak::Speak,
    commands::engine::{self, Started},
    progress::Progress,
    report::Report,
};

/// True if `choice` is a model of this family: a name, or a file or directory with one.
pub(super) fn is_chosen(choice: Option<&str>) -> bool {
    let Some(choice) = choice else { return false };
    let is_name = |name: &str| name.eq_ignore_ascii_case(choice);
    let mut models = MAGPIE_MODELS.iter();
    models.any(|model| is_name(model.name) || is_name(model.directory))
        || Magpie::is_at(Path::new(choice))
}

/// Speaks `texts`.
///
/// # Errors
/// If a flag, the output, a setting, the model or the device is unusable.
pub(super) fn run(
    args: &Speak,
    texts: Vec<String>,
    outputs: &Outputs,
    started: Started,
    layout: &Layout,
    report: Report,
) -> Result<ExitCode> {
    let Started { engine, kernels, mut notices } = started;
    let model = Magpie::find(args.model.as_deref(), None, layout)
        .map_err(acestep_engine::Error::checkpoint)?;
    let first = args.drawing.magpie(model.name(), &args.voice)?;
    let first_seed = first.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let requests: Vec<Request> = texts
        .into_iter()
        .zip(0u64..)
        .map(|(text, index)| Request {
            text,
            seed: Some(first_seed.wrapping_add(index)),
            ..first.clone()
        })
        .collect();
    let options: Options = super::options(args, engine, requests.len());
    let plans = speech::plans(&requests, &model, None);
    let plans = plans.or_else(|(index, error)| {
        let named = || format!("line {} cannot be spoken", index + 1);
        let error = Err(anyhow::Error::from(error));
        if requests.len() > 1 { error.with_context(named) } else { error }
    })?;
    speech::check_memory(&plans, &model, engine, options)?;
    let models = [model.name().to_owned()];
    notices.extend(engine::first_run(&kernels, engine, &models));
    report.notes(&notices);
    report.line(&format!("{} on {engine} · seed {first_seed}", model.name()));

    let progress = Progress::new(report);
    let rate = model.codec_config().sample_rate as u32;
    let mut output = Output::begin(outputs, &report, rate)?;
    let made = speech::speak(plans, &model, engine, (options, args.lines), &progress, &mut output)
        .context("cannot speak the text");
    output.failed()?;
    let mut more = made.inspect_err(|_| output.note_finished())?;
    engine::remember(&kernels, engine, &models);
    more.extend(progress.finish().notices);
    report.notes(&more);
    notices.extend(more);
    output.finish(first_seed, notices)
}

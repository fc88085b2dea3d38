//! `acestep speak`: speaks a text, or each line of one.
//!
//! ```text
//! texts, voice -> Plans -> frames -> samples -> files; standard output or speakers while they are made
//! ```

mod magpie;
mod output;
mod result;
mod stream;

use std::{process::ExitCode, time::Instant};

use acestep_engine::{Engine, Notice};
use acestep_import::{Qwen3Tts, TINY_SPEECH};
use acestep_model::speech::qwen3_tts::Files as _;
use acestep_session::speech::{self, Speech, Voice};
use acestep_speech::{
    Chunks, Options,
    qwen3_tts::{Request, SAMPLE_RATE},
};
use anyhow::{Context, Result};

use super::{
    engine::{self, Started},
    text::{Stdin, text_or_file},
    voice::voices,
};
use crate::{
    args::{Global, speak::Speak},
    error::CliError,
    progress::Progress,
    settings,
};
use output::{Output, Outputs};

/// Runs the command.
///
/// # Errors
/// If a text, the recording, the output, a setting, the model or the device is unusable. Errors
/// carry a hint.
pub(crate) fn run(args: &Speak, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    let mut stdin = Stdin::default();
    let typed = if args.text == "-" { "@-" } else { &args.text };
    let texts = texts(text_or_file("TEXT", typed, &mut stdin)?, args.lines)?;
    let mut read = |flag, text: &Option<String>| {
        text.as_deref().map(|text| text_or_file(flag, text, &mut stdin)).transpose()
    };
    let instruct = read("--instruct", &args.voice.instruct)?;
    let transcript = read("--transcript", &args.voice.transcript)?;
    stdin.check()?;
    let outputs = Outputs::of(args, texts.len())?;
    let started = engine::start(&args.place)?;
    let (voices, layout) = (voices(), settings::layout());
    if magpie::is_chosen(args.model.as_deref()) {
        return magpie::run(args, texts, &outputs, started, &layout, report);
    }
    let Started { engine, kernels, mut notices } = started;
    let (name, voices) = (args.voice.voice.as_deref(), voices.as_ref().ok());
    let model = speech::find(args.model.as_deref(), name, voices, &layout)?
        .with_fix_mistral_regex(args.drawing.fix_mistral_regex);
    if model.name() == TINY_SPEECH {
        let text = "tiny-speech is a random network: it makes noise, to prove the program";
        notices.push(Notice(text.into()));
    }
    notices.extend(model.notices().into_iter().map(Notice));
    // Each of them keeps one core busy: the vocabulary is read beside the voice. Its error comes with
    // the first text.
    let voice = std::thread::scope(|scope| -> Result<Voice> {
        scope.spawn(|| drop(model.tokenizer()));
        Ok(match (&args.voice.reference, name) {
            (Some(path), _) => Voice::recording(path, transcript, &mut notices)?,
            (None, Some(name)) => Voice::named(name, &model, voices)?,
            (None, None) => Voice::Model,
        })
    })?;
    let first = args.drawing.request(String::new(), &args.voice, instruct);
    let first_seed = first.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let requests: Vec<Request> = texts
        .into_iter()
        .zip(0u64..)
        .map(|(text, index)| {
            let seed = Some(first_seed.wrapping_add(index));
            let voice = first.voice.clone().filter(|_| !voice.is_recording());
            Request { text, seed, voice, ..first.clone() }
        })
        .collect();
    let options = options(args, engine, requests.len());
    let positions = positions(&requests, &voice, &model)?;
    speech::check_memory(&model, engine, options, positions)?;
    let models = [model.name().to_owned()];
    notices.extend(engine::first_run(&kernels, engine, &models));
    report.notes(&notices);
    report.line(&format!("{} on {engine} · seed {first_seed}", model.name()));

    let progress = Progress::new(report);
    let mut output = Output::begin(&outputs, &report, SAMPLE_RATE)?;
    let speech = Speech { requests: &requests, voice: &voice, options, lines: args.lines };
    let made = speech::speak(speech, &model, engine, &progress, &mut output)
        .context("cannot speak the text");
    output.failed()?;
    let planned = made.inspect_err(|_| output.note_finished())?;
    engine::remember(&kernels, engine, &models);
    let mut more = planned;
    more.extend(progress.finish().notices);
    report.notes(&more);
    notices.extend(more);
    output.finish(first_seed, notices)
}

/// Returns the texts to speak: one, or each line that is not empty.
fn texts(text: String, lines: bool) -> Result<Vec<String>, CliError> {
    if !lines {
        return Ok(vec![text]);
    }
    let texts: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if texts.is_empty() {
        let message = "the text has no line that is not empty";
        return Err(CliError::usage(message).hint("write one text on each line"));
    }
    Ok(texts)
}

fn options(args: &Speak, engine: Engine, texts: usize) -> Options {
    let usual = Options::default();
    let others = args.output.stream_chunk.map_or(usual.chunks.others, |frames| frames as usize);
    let rows = args.batch_size.map_or(speech::at_once(engine), |rows| rows as usize);
    // Lines are played one after the other.
    let batch_size = if args.output.play { 1 } else { rows.min(texts) };
    Options { chunks: Chunks { others, ..usual.chunks }, batch_size, since: Some(Instant::now()) }
}

/// Checks all requests, and returns the most prompt rows and frames of a run. With several lines an
/// error names the line.
fn positions(requests: &[Request], voice: &Voice, model: &Qwen3Tts) -> Result<usize> {
    let mut most = 0;
    for (index, request) in requests.iter().enumerate() {
        let checked = speech::positions(request, voice, model);
        let named = || format!("line {} cannot be spoken", index + 1);
        most = most.max(if requests.len() > 1 { checked.with_context(named)? } else { checked? });
    }
    Ok(most)
}

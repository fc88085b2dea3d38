//! `acestep speak`: speaks a text, or each line of one.
//!
//! ```text
//! texts, voice -> Plans -> frames -> samples -> files; standard output or speakers while they are made
//! ```

mod output;
mod result;
mod stream;
mod voice;

use std::{process::ExitCode, time::Instant};

use acestep_engine::{Engine, Error, Notice, Observe};
use acestep_import::{Qwen3Tts, Qwen3TtsNetwork, TINY_SPEECH};
use acestep_model::speech::qwen3_tts::Files as _;
use acestep_speech::{
    Chunks, Made, Networks, Options, Plan, Request, Speaking, Spoken, check_request, memory,
};
use anyhow::{Context, Result};

use super::{
    engine::{self, Started, on_engine},
    memory as room,
    text::{Stdin, text_or_file},
};
use crate::{
    args::{Global, speak::Speak},
    error::CliError,
    progress::Progress,
};
use output::{Output, Outputs};
use voice::Source;

/// The shortest recording that is read, in seconds; the networks may need more.
pub(super) const LEAST_SECONDS: f64 = 0.05;
/// Prompt rows and frames of a run whose recording is not encoded yet.
const USUAL_POSITIONS: usize = 2500;
/// Texts that a GPU speaks side by side by default: kernels for few rows take no more.
const AT_ONCE_ON_GPU: usize = 4;

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
    let Started { engine, kernels, mut notices } = engine::start(&args.place)?;
    let model = voice::model(args)?.with_fix_mistral_regex(args.drawing.fix_mistral_regex);
    if model.name() == TINY_SPEECH {
        let text = "tiny-speech is a random network: it makes noise, to prove the program";
        notices.push(Notice(text.into()));
    }
    notices.extend(model.notices().into_iter().map(Notice));
    // Each of them keeps one core busy: the vocabulary is read beside the voice. Its error comes with
    // the first text.
    let source = std::thread::scope(|scope| {
        scope.spawn(|| drop(model.tokenizer()));
        Source::of(&args.voice, transcript, &model, &mut notices)
    })?;
    let first = args.drawing.request(String::new(), &args.voice, instruct);
    let first_seed = first.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let requests: Vec<Request> = texts
        .into_iter()
        .zip(0u64..)
        .map(|(text, index)| {
            let seed = Some(first_seed.wrapping_add(index));
            let voice = first.voice.clone().filter(|_| !source.is_recording());
            Request { text, seed, voice, ..first.clone() }
        })
        .collect();
    let options = options(args, engine, requests.len());
    let positions = positions(&requests, &source, &model)?;
    check_memory(&model, engine, options, positions)?;
    let models = [model.name().to_owned()];
    notices.extend(engine::first_run(&kernels, engine, &models));
    report.notes(&notices);
    report.line(&format!("{} on {engine} · seed {first_seed}", model.name()));

    let progress = Progress::new(report);
    let mut output = Output::begin(&outputs, &report)?;
    let run = Run { requests: &requests, source: &source, options, lines: args.lines };
    let made = spoken(&model, engine, run, &progress, &mut output);
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
    let at_once = if engine.device.is_gpu() { AT_ONCE_ON_GPU } else { usual.batch_size };
    let rows = args.batch_size.map_or(at_once, |rows| rows as usize);
    // Lines are played one after the other.
    let batch_size = if args.output.play { 1 } else { rows.min(texts) };
    Options { chunks: Chunks { others, ..usual.chunks }, batch_size, since: Some(Instant::now()) }
}

/// Checks all requests, and returns the most prompt rows and frames of a run.
///
/// # Errors
/// The errors of [`Plan::new`]. With several lines they name the line.
fn positions(requests: &[Request], source: &Source, model: &Qwen3Tts) -> Result<usize> {
    let mut most = USUAL_POSITIONS;
    if !matches!(source, Source::Recording(..)) {
        most = 0;
    }
    for (index, request) in requests.iter().enumerate() {
        let named = || format!("line {} cannot be spoken", index + 1);
        let checked = || -> Result<usize, Error> {
            check_request(request, source.is_recording(), model)?;
            if matches!(source, Source::Recording(..)) {
                return Ok(0);
            }
            let plan = Plan::new(request, source.kept(), 0, model)?;
            Ok(plan.prompt.rows.len() + plan.most_frames)
        };
        let checked = checked();
        most = most.max(if requests.len() > 1 { checked.with_context(named)? } else { checked? });
    }
    Ok(most)
}

/// Refuses a model that does not fit into memory, with as many runs as `options` have, of at most
/// `positions` prompt rows and frames.
///
/// # Errors
/// Too little memory: the error names the need, the available memory, and a remedy.
pub(super) fn check_memory(
    model: &Qwen3Tts,
    engine: Engine,
    options: Options,
    positions: usize,
) -> Result<()> {
    let (widths, rows) = (engine.widths(), options.batch_size);
    let size = |network| model.size(network).map(|size| size.parameters);
    let (talker, decoder) = (size(Qwen3TtsNetwork::Talker)?, size(Qwen3TtsNetwork::CodecDecoder)?);
    let config = &model.codec_config().decoder_config;
    let needs = [
        memory::talker(model.config(), talker, rows, positions, widths),
        memory::codec_decoder(config, decoder, options.chunks.others, widths),
    ];
    room::check(&needs, true, engine).map_err(|error| {
        CliError::new(error.to_string())
            .hint(
                "pass `--dtype q8`, `--batch-size 1`, a smaller `--max-new-tokens`, or a smaller \
                 model",
            )
            .into()
    })
}

/// The arguments of a run.
struct Run<'a> {
    requests: &'a [Request],
    source: &'a Source,
    options: Options,
    lines: bool,
}

/// Speaks, and returns the notices of the plans.
fn spoken(
    model: &Qwen3Tts,
    engine: Engine,
    run: Run<'_>,
    observe: &dyn Observe,
    output: &mut Output<'_>,
) -> Result<Vec<Notice>> {
    on_engine!(engine,
    for<'a>(
        model: &'a Qwen3Tts,
        run: Run<'a>,
        observe: &'a dyn Observe,
        output: &'a mut dyn Sink,
    ) -> Result<Vec<Notice>, Error>,
    |place: B| {
        model.check::<B>(&place.device).map_err(Error::checkpoint)?;
        let networks = Networks::<B>::new(model, place);
        let (voice, snapshot) = run.source.voice(&networks, observe)?;
        let plan = |request| Plan::new(request, voice.clone(), 0, model);
        let plans = run.requests.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        let mut notices: Vec<Notice> =
            run.source.unused(snapshot.as_ref(), &plans).into_iter().collect();
        for (index, plan) in plans.iter().enumerate() {
            notices.extend(plan.notices.iter().map(|notice| of_line(notice, index, run.lines)));
        }
        let runs = Speaking::begin(plans, snapshot.as_ref(), &networks, run.options, observe)?;
        for made in runs {
            match made? {
                (_, Made::Samples(samples)) => output.samples(&samples)?,
                (index, Made::Done(spoken)) => output.done(index, spoken)?,
            }
        }
        Ok(notices)
    })?
    .context("cannot speak the text")
}

/// Returns a notice that names its line, if there are lines.
fn of_line(notice: &Notice, index: usize, lines: bool) -> Notice {
    match lines {
        true => Notice(format!("line {}: {}", index + 1, notice.0)),
        false => notice.clone(),
    }
}

/// A receiver of sound.
trait Sink {
    /// Takes the next samples of a run.
    fn samples(&mut self, samples: &[f32]) -> Result<(), Error>;
    /// Takes the result of run `index`.
    fn done(&mut self, index: usize, spoken: Spoken) -> Result<(), Error>;
}

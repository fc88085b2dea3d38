//! `acestep speak`: speaks a text, or each line of one.
//!
//! ```text
//! texts, voice -> Plans -> frames -> samples -> files; standard output or speakers while they are made
//! ```

mod follow;
mod output;
mod result;

use std::time::Instant;

use acestep_session::speech::{self, Arriving, SpeechInput};
use acestep_speech::{Chunks, Options};
use anyhow::Result;

use super::{
    engine::{self, Started},
    text::{Stdin, spoken_or_file},
    voice::voices,
};
use crate::{
    args::{Global, speak::Speak},
    error::{CliError, during},
    interrupt,
    progress::Progress,
    settings,
};
use follow::Lines;
use output::{Output, Outputs};

/// Runs the command.
///
/// # Errors
/// If a text, the recording, the output, a setting, the model or the device is unusable. Errors
/// carry a hint.
pub(crate) fn run(args: &Speak, global: &Global) -> Result<()> {
    let report = global.report();
    let mut stdin = Stdin::default();
    let typed = match args.text.as_deref() {
        Some("-") => "@-",
        // Then phonemes or ids were given.
        typed => typed.unwrap_or_default(),
    };
    let texts = match args.follow {
        true => {
            check_followed(args, &mut stdin)?;
            vec![]
        }
        false => texts(spoken_or_file("TEXT", typed, &mut stdin)?, args.lines)?,
    };
    let mut read = |flag, text: &Option<String>| {
        text.as_deref().map(|text| spoken_or_file(flag, text, &mut stdin)).transpose()
    };
    let instruct = read("--instruct", &args.voice.instruct)?;
    let transcript = read("--transcript", &args.voice.transcript)?;
    let phonemes = read("--phonemes", &args.instead.phonemes)?;
    stdin.check()?;
    let begin = Instant::now();
    let count = if args.follow { 1 } else { texts.len() };
    let outputs = Outputs::of(args, count)?;
    let mut fields = args.fields()?;
    speech::check_files(&fields)?;
    let Started { engine, kernels, mut notices } = engine::start(&args.place)?;
    let (voices, layout) = (voices(), settings::layout());
    let voices = voices.as_ref().ok();
    let texts_of_fields =
        [("instruct", instruct), ("transcript", transcript), ("phonemes", phonemes)];
    for (field, text) in texts_of_fields {
        fields.extend(text.map(|text| (field.to_owned(), text.into())));
    }
    notices.extend(speech::shadowing(args.model.as_deref(), &fields, voices, &layout));
    let model = speech::open(args.model.as_deref(), &mut fields, voices, &layout)?;
    notices.extend(model.notices());
    speech::check_batch(&*model, engine, args.batch_size)?;
    if args.output.timestamps.is_some() && !model.has_word_times() {
        let message = format!("`{}` does not tell the times of words", model.name());
        let hint = "leave --timestamps out, or take a dialogue model";
        return Err(CliError::usage(message).hint(hint).into());
    }
    if args.follow && !model.can_append() {
        let message = format!("`{}` takes no text while it speaks", model.name());
        let hint = "leave --follow out, or take a dialogue model";
        return Err(CliError::usage(message).hint(hint).into());
    }
    // Only now: a missing model is pulled first, and the lines would be lost; and the question for it
    // needs standard input.
    let mut lines = args.follow.then(Lines::begin);
    let (texts, begin) = match &mut lines {
        // The time of a program that writes the text does not count.
        Some(lines) => (vec![lines.first()?], Instant::now()),
        None => (texts, begin),
    };
    let first_seed = args.drawing.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let options = options(args, model.at_once(engine), texts.len(), begin);
    let input = SpeechInput { texts, fields, seed: first_seed, voices, lines: args.lines };
    let speech = model.clone().prepare(input, engine, &interrupt::STOP, &mut notices)?;
    speech.check_memory(engine, options)?;
    let models = [model.name().to_owned()];
    notices.extend(engine::first_run(&kernels, engine, &models));
    report.notes(&notices);
    report.line(&format!("{} on {engine} · seed {first_seed}", model.name()));

    let progress = Progress::new(report);
    let mut output = Output::begin(&outputs, model.sample_rate(), begin, &report)?;
    let more = lines.as_mut().map(|lines| lines as &mut dyn Arriving);
    let made = speech
        .speak(options, more, &progress, &mut output)
        .map_err(|error| during(error, "cannot speak the text"));
    output.failed()?;
    let mut more = made.inspect_err(|_| output.note_finished())?;
    engine::remember(&kernels, engine, &models);
    more.extend(progress.finish().notices);
    let more = speech::gathered(more);
    report.notes(&more);
    notices.extend(more);
    output.finish(first_seed, notices)
}

/// Notes that the text comes from standard input; refuses another one.
fn check_followed(args: &Speak, stdin: &mut Stdin) -> Result<(), CliError> {
    if args.text.as_deref() != Some("-") {
        let message = "`--follow` reads the text from standard input";
        return Err(CliError::usage(message).hint("give - in place of the text"));
    }
    stdin.takes("TEXT");
    Ok(())
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

/// Returns the settings; the times count from `begin`.
fn options(args: &Speak, at_once: usize, texts: usize, begin: Instant) -> Options {
    let usual = Options::default();
    let others = args.output.stream_chunk.map_or(usual.chunks.others, |frames| frames as usize);
    let rows = args.batch_size.map_or(at_once, |rows| rows as usize);
    // Lines are played one after the other.
    let batch_size = if args.output.play { 1 } else { rows.min(texts) };
    let chunks = Chunks { others, ..usual.chunks };
    // They are written while they are made.
    Options { chunks, batch_size, since: Some(begin), keeps_samples: false }
}

//! `acestep speak`: speaks a text.
//!
//! ```text
//! text, voice -> Plan -> frames -> samples -> file, or standard output while they are made
//! ```

mod stream;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use acestep_engine::{
    Engine, Error, Notice, Observe,
    audio::{
        encoding::EncodingOptions,
        format::{Encoding, Format},
        read, write,
    },
};
use acestep_import::{Qwen3Tts, TINY_SPEECH};
use acestep_model::speech::qwen3_tts::Files as _;
use acestep_speech::{Chunks, Networks, Plan, Request, Spoken, Voice, check_request, speak};
use anyhow::{Context, Result};
use serde_json::json;

use super::{
    engine::{self, Started, on_engine},
    formats::is_stdout,
    target,
    text::{Stdin, text_or_file},
};
use crate::{
    args::{Global, speak::Speak},
    error::CliError,
    fields, interrupt,
    progress::{self, Progress},
    report::{self, Report},
    settings,
};
use stream::Stream;

/// The shortest recording that is read, in seconds; the networks may need more.
const LEAST_SECONDS: f64 = 0.05;

/// Runs the command.
///
/// # Errors
/// If a text, the recording, the output, a setting, the model or the device is unusable. Errors
/// carry a hint.
pub(crate) fn run(args: &Speak, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    let mut stdin = Stdin::default();
    let text = match &*args.text {
        "-" => text_or_file("TEXT", "@-", &mut stdin)?,
        text => text_or_file("TEXT", text, &mut stdin)?,
    };
    let read = |flag, text: &Option<String>, stdin: &mut Stdin| {
        text.as_deref().map(|text| text_or_file(flag, text, stdin)).transpose()
    };
    let instruct = read("--instruct", &args.voice.instruct, &mut stdin)?;
    let transcript = read("--transcript", &args.voice.transcript, &mut stdin)?;
    stdin.check()?;
    let target = Target::of(args)?;
    let Started { engine, kernels, mut notices } = engine::start(&args.place)?;
    let model = Qwen3Tts::find(args.model.as_deref(), &settings::layout())?;
    if model.name() == TINY_SPEECH {
        let text = "tiny-speech is a random network: it makes noise, to prove the program";
        notices.push(Notice(text.into()));
    }
    let request = args.drawing.request(text, &args.voice, instruct);
    check_request(&request, args.voice.reference.is_some(), &model)?;
    let recording = match &args.voice.reference {
        None => None,
        Some(path) => {
            let (audio, more) = read::song(path, LEAST_SECONDS)?;
            notices.extend(more);
            Some((audio, transcript))
        }
    };
    let seed = request.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let models = [model.name().to_owned()];
    notices.extend(engine::first_run(&kernels, engine, &models));
    report.notes(&notices);
    report.line(&format!("{} on {engine} · seed {seed}", model.name()));

    let chunks = args.output.stream_chunk.map_or_else(Chunks::default, |frames| Chunks {
        others: frames as usize,
        ..Chunks::default()
    });
    let progress = Progress::new(report);
    let mut stream = target.stream()?;
    let run = Run { request: &request, seed, recording: recording.as_ref(), chunks };
    let made = spoken(&model, engine, run, &progress, &mut stream);
    if let Some(failed) = stream.failed {
        return Err(failed.into());
    }
    let (planned, spoken) = made?;
    engine::remember(&kernels, engine, &models);
    let mut more = planned;
    more.extend(spoken.ended.notice());
    more.extend(progress.finish().notices);
    report.notes(&more);
    notices.extend(more);
    finish(args, &target, &spoken, seed, &notices, &report)
}

/// The arguments of a run.
struct Run<'a> {
    request: &'a Request,
    seed: u64,
    recording: Option<&'a (acestep_engine::Audio, Option<String>)>,
    chunks: Chunks,
}

/// Speaks, and returns the notices of the plan beside the sound.
fn spoken(
    model: &Qwen3Tts,
    engine: Engine,
    run: Run<'_>,
    observe: &dyn Observe,
    stream: &mut Stream,
) -> Result<(Vec<Notice>, Spoken)> {
    on_engine!(engine,
    for<'a>(
        model: &'a Qwen3Tts,
        run: Run<'a>,
        observe: &'a dyn Observe,
        stream: &'a mut Stream,
    ) -> Result<(Vec<Notice>, Spoken), Error>,
    |place: B| {
        model.check::<B>(&place.device).map_err(Error::checkpoint)?;
        let networks = Networks::<B>::new(model, place);
        let voice = match run.recording {
            None => None,
            Some((audio, transcript)) => {
                Some(Voice::of_recording(audio, transcript.as_deref(), &networks, observe)?)
            }
        };
        let plan = Plan::new(run.request, voice, run.seed, model)?;
        let mut sink = |samples: &[f32]| stream.write(samples);
        let spoken = speak(&plan, &networks, run.chunks, observe, &mut sink)?;
        Ok((plan.notices, spoken))
    })?
    .context("cannot speak the text")
}

/// The place and the format of the sound.
enum Target {
    File(PathBuf, Encoding),
    /// Standard output; true for samples without a header.
    Stdout {
        is_raw: bool,
    },
}

impl Target {
    fn of(args: &Speak) -> Result<Self> {
        let output = args.output.output.as_deref().unwrap_or(Path::new("speech.wav"));
        let format = args.output.audio_format.as_deref();
        if is_stdout(output) {
            if args.output.files.json {
                let message = "the sound and the JSON object are both to go to standard output";
                return Err(CliError::usage(message).hint("give --output a file").into());
            }
            return match format {
                None | Some("wav") => Ok(Self::Stdout { is_raw: false }),
                Some("pcm") => Ok(Self::Stdout { is_raw: true }),
                Some(other) => {
                    let message = format!("`--audio-format {other}` cannot go to standard output");
                    Err(CliError::usage(message).hint("use wav or pcm there, or a file").into())
                }
            };
        }
        let reference = args.voice.reference.as_deref();
        let inputs: Vec<&Path> = reference.into_iter().collect();
        target::check(output, &inputs, args.output.files.existing())?;
        let typed: Option<Format> = format.map(str::parse).transpose()?;
        let named = Format::of(output);
        let format = match (typed, named) {
            (Some(typed), Some(named)) if typed.extension() != named.extension() => {
                let path = output.display();
                let message = format!("`--audio-format {typed}` contradicts the name `{path}`");
                let hint = format!("name it .{}, or leave --audio-format out", typed.extension());
                return Err(CliError::usage(message).hint(hint).into());
            }
            (Some(format), _) | (None, Some(format)) => format,
            (None, None) => {
                let path = output.display();
                let message = format!("`{path}` has no ending of a sound format that is written");
                return Err(CliError::usage(message).hint("name it .wav or .flac").into());
            }
        };
        let encoding = Encoding::resolve(EncodingOptions::default(), format, &mut Vec::new())?;
        Ok(Self::File(output.to_owned(), encoding))
    }

    fn stream(&self) -> Result<Stream> {
        match self {
            Self::File(..) => Ok(Stream::none()),
            Self::Stdout { is_raw } => Stream::begin(*is_raw),
        }
    }
}

fn finish(
    args: &Speak,
    target: &Target,
    spoken: &Spoken,
    seed: u64,
    notices: &[Notice],
    report: &Report,
) -> Result<ExitCode> {
    let files = args.output.files;
    if let Target::File(path, encoding) = target {
        if spoken.audio.samples() == 0 {
            let message = "the talker ended before the first frame: there is nothing to write";
            return Err(CliError::new(message).hint("try another --seed or text").into());
        }
        interrupt::whole(|| write::save(path, &spoken.audio, encoding, None, files.existing()))?;
    }
    let seconds = spoken.audio.seconds();
    let times = spoken.times;
    let factor = |time: Duration| time.as_secs_f64() / seconds.max(f64::MIN_POSITIVE);
    if files.json {
        let path = match target {
            Target::File(path, _) => Some(path.display().to_string()),
            Target::Stdout { .. } => None,
        };
        let object = json!({
            "output": path,
            "seconds": seconds,
            "frames": spoken.frames.len(),
            "sample_rate": spoken.audio.sample_rate,
            "seed": seed,
            "real_time_factor": factor(times.total),
            "elapsed": {
                "total": times.total.as_secs_f64(),
                "first_sound": times.first_sound.as_secs_f64(),
                "prompt": times.prompt.as_secs_f64(),
                "frames": times.frames.as_secs_f64(),
                "codec": times.codec.as_secs_f64(),
            },
            "codes": spoken.frames,
            "notices": fields::texts(notices),
        });
        report.output(&format!("{object:#}"))?;
    } else if let Target::File(path, _) = target {
        report::path(path)?;
    }
    report.line(&format!(
        "{seconds:.2} s of speech in {} · real-time factor {:.2} · first sound after {} · seed {seed}",
        progress::seconds(times.total),
        factor(times.total),
        progress::seconds(times.first_sound),
    ));
    Ok(ExitCode::SUCCESS)
}

//! `acestep codec`: the autoencoder alone, sound to latents and back.

use std::{path::Path, time::Instant};

use acestep_engine::{
    Notice,
    audio::{
        Audio,
        fade::fade,
        format::{Encoding, Format},
        loudness::Loudness,
        read, write,
    },
    error::counted,
    files::check_source,
    tiling::Tiling,
};
use acestep_import::{AceStep, TINY};
use acestep_music::{Encode, NoiseSource, Request, latents, request::output::OutputPlan};
use acestep_session::{codec, outputs};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    engine::{self, Started},
    target::{Target, is_stdout},
};
use crate::{
    args::{
        Global,
        codec::{Common, Decode, Encode as EncodeArgs, Way},
    },
    fields, interrupt,
    progress::{self, Progress},
    report::{self, Report},
    settings,
};

pub(crate) fn run(way: &Way, global: &Global) -> Result<()> {
    let report = global.report();
    match way {
        Way::Encode(args) => encode(args, &report),
        Way::Decode(args) => decode(args, &report),
    }
}

/// A model's folder and the engine that computes with it.
struct Ready {
    folder: AceStep,
    started: Started,
}

/// Opens the folder of the model for `input`. Its configuration determines the format of the latents.
fn open(common: &Common, input: &Path) -> Result<AceStep> {
    check_source(input)?;
    let model = common.model.clone().unwrap_or_else(settings::model);
    Ok(acestep_import::open(&model, &settings::layout())?)
}

impl Ready {
    fn start(common: &Common, folder: AceStep) -> Result<Self> {
        let mut started = engine::start(&common.place)?;
        if folder.name() == TINY {
            let text = "tiny is a random network: what it encodes is not heard again";
            started.notices.push(Notice(text.into()));
        }
        let models = [folder.name().to_owned()];
        started.notices.extend(engine::first_run(&started.kernels, started.engine, &models));
        Ok(Self { folder, started })
    }

    /// Remembers that this model has completed a run, and returns all notices.
    fn finish(self, progress: Progress) -> Vec<Notice> {
        let Started { engine, kernels, mut notices } = self.started;
        engine::remember(&kernels, engine, &[self.folder.name()]);
        notices.extend(progress.finish().notices);
        notices
    }
}

fn encode(args: &EncodeArgs, report: &Report) -> Result<()> {
    let common = &args.common;
    if common.output.is_none() {
        outputs::check_beside(&args.input)?;
    }
    let folder = open(common, &args.input)?;
    let vae = &folder.configs().vae;
    let (hop, per_second, rate) = (vae.hop(), vae.frames_per_second(), vae.sampling_rate);
    let (audio, mut notices) = read::song(&args.input, per_second.recip(), rate, &interrupt::STOP)?;
    let output = destination(common, &args.input, args.format.unwrap_or_default().name())?;
    let format = match output.file().filter(|_| common.output.is_some()) {
        Some(path) => outputs::latents_format("output", args.format, path)?,
        None => args.format.unwrap_or_default(),
    };
    let (samples, frames) = codec::length(&audio, &folder)?;
    let tiling = codec::tiling(common.tiles(), Tiling::ENCODE, frames, &mut notices)?;
    let mut ready = Ready::start(common, folder)?;
    ready.started.notices.extend(notices);
    let (folder, engine) = (&ready.folder, ready.started.engine);
    codec::check_memory(folder, true, frames, engine)?;

    let seed = args.sample.then(|| args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>())));
    let how = Encode { tiling, draw: seed.map(|seed| (NoiseSource::default(), seed)) };
    report.notes(&ready.started.notices);
    let start = Instant::now();
    let progress = Progress::new(*report);
    let made = codec::encode(&audio, how, folder, engine, &progress)
        .context("cannot turn the sound into latents")?;
    let [_, frames, channels] = made.shape;
    let bytes = latents::to_bytes(&made, format, per_second)?;
    output.write(&bytes, common.files.existing())?;
    let notices = ready.finish(progress);
    let object = json!({
        "format": format.name(),
        "frames": frames,
        "channels": channels,
        "samples": samples,
        "dropped": samples - frames * hop,
        "seconds": frames as f64 / per_second,
        "seed": seed,
    });
    let drawn = seed.map_or_else(String::new, |seed| format!("seed {seed} · "));
    let what = format!("{drawn}{} of {channels} numbers", counted(frames, "frame"));
    finish(common, &output, object, &notices, &what, start, report)
}

fn decode(args: &Decode, report: &Report) -> Result<()> {
    let common = &args.common;
    let mut notices = vec![];
    let mut request = Request::default();
    args.sound.put_over(&mut request.output);
    let typed = args.sound.audio_format.as_deref();
    let output = common.output.as_deref().filter(|path| !is_stdout(path));
    let format = outputs::song_format(typed, output, output, &mut request, &mut notices)?;
    let encoding = Encoding::resolve(request.output.encoding(), format, &mut notices)?;
    let folder = open(common, &args.input)?;
    let stored = latents::read(&args.input, folder.configs().vae.decoder_input_channels)?;
    let output = destination(common, &args.input, format.extension())?;
    let frames = stored.shape[1];
    let tiling = codec::tiling(common.tiles(), Tiling::default(), frames, &mut notices)?;
    let mut ready = Ready::start(common, folder)?;
    let (folder, engine) = (&ready.folder, ready.started.engine);
    codec::check_memory(folder, false, frames, engine)?;
    let changes = codec::changes(&mut request.output, folder, frames, &mut notices)?;
    ready.started.notices.extend(notices);
    report.notes(&ready.started.notices);

    let start = Instant::now();
    let progress = Progress::new(*report);
    let mut audio = codec::decode(&stored, tiling, folder, engine, &progress)
        .context("cannot turn the latents into sound")?;
    let said = finished(&mut audio, &changes, format);
    report.notes(&said);
    let bytes = write::to_bytes(&audio, &encoding, None, &progress)?;
    output.write(&bytes, common.files.existing())?;
    let mut notices = ready.finish(progress);
    notices.extend(said);
    let object = json!({
        "format": format.name(),
        "frames": frames,
        "samples": audio.samples(),
        "sample_rate": audio.sample_rate,
        "channels": audio.channels.len(),
        "seconds": audio.seconds(),
    });
    let what = format!("{:.1} s of audio", audio.seconds());
    finish(common, &output, object, &notices, &what, start, report)
}

/// Applies loudness and fades. Float output is kept as decoded, even above full scale.
fn finished(audio: &mut Audio, changes: &OutputPlan, format: Format) -> Option<Notice> {
    let keeps = |Notice(text)| Notice(format!("{text}; --format wav32 keeps it"));
    let said = match changes.loudness {
        Loudness::AsIs if format == Format::Wav32 => None,
        Loudness::AsIs => changes.loudness.apply(audio).map(keeps),
        _ => changes.loudness.apply(audio),
    };
    fade(audio, changes.fades());
    said
}

/// Returns the output, which can be written.
fn destination(common: &Common, input: &Path, extension: &str) -> Result<Target> {
    let path = common.output.clone().unwrap_or_else(|| input.with_extension(extension));
    let output = Target::new(path, common.files.json)?;
    if let Some(path) = output.file() {
        let inputs = [input].into_iter().chain(settings::loaded().file.as_deref());
        outputs::check(path, inputs, common.files.existing())?;
    }
    Ok(output)
}

/// Reports the result and the path of the output.
fn finish(
    common: &Common,
    output: &Target,
    mut object: Value,
    notices: &[Notice],
    what: &str,
    start: Instant,
    report: &Report,
) -> Result<()> {
    if common.files.json {
        object["path"] = json!(output);
        object["notices"] = fields::texts(notices).into();
        object["elapsed"] = start.elapsed().as_secs_f64().into();
        report.object(&object)?;
    } else if let Some(path) = output.file() {
        report::path(path)?;
    }
    report.line(&format!("{what} in {} · {output}", progress::seconds(start.elapsed())));
    Ok(())
}

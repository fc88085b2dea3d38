//! `acestep codec`: the autoencoder alone, sound to latents and back.

use std::{path::Path, process::ExitCode, time::Instant};

use acestep_engine::{
    Engine, Error, Notice, Residency,
    audio::{
        Audio,
        fade::fade,
        format::{Encoding, Format},
        loudness::Loudness,
        read, write,
    },
    on_engine,
    tiling::Tiling,
};
use acestep_import::{AceStep, Network, TINY};
use acestep_music::{
    Networks, Request, SongError, codec,
    exchange::Array3,
    flow::noise::NoiseSource,
    latents,
    request::{compute, output::OutputPlan},
};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    engine::{self, Started},
    formats::{self, is_stdout},
    memory,
    target::{self, Target},
};
use crate::{
    args::{
        Global,
        codec::{Common, Decode, Encode, Way},
    },
    fields,
    progress::{self, Progress},
    report::{self, Report},
    settings,
};

pub(crate) fn run(way: &Way, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    match way {
        Way::Encode(args) => encode(args, &report)?,
        Way::Decode(args) => decode(args, &report)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A model's folder and the engine that computes with it.
struct Ready {
    folder: AceStep,
    started: Started,
}

/// Opens the folder of the chosen model. Its configuration determines the format of the latents.
fn open(common: &Common) -> Result<AceStep> {
    let layout = settings::layout();
    let model = common.model.clone().unwrap_or_else(settings::model);
    Ok(acestep_import::open(&model, &layout)?)
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

    fn engine(&self) -> Engine {
        self.started.engine
    }

    /// Remembers that this model has completed a run, and returns all notices.
    fn finish(self, progress: Progress) -> Vec<Notice> {
        let Started { engine, kernels, mut notices } = self.started;
        engine::remember(&kernels, engine, &[self.folder.name()]);
        notices.extend(progress.finish().notices);
        notices
    }
}

fn encode(args: &Encode, report: &Report) -> Result<()> {
    let common = &args.common;
    if common.output.is_none() {
        target::check_place(&args.input)?;
    }
    let folder = open(common)?;
    let vae = &folder.configs().vae;
    let (rate, hop, per_second) =
        (u64::from(vae.sampling_rate), vae.hop(), vae.frames_per_second());
    let (audio, mut notices) = read::song(&args.input, per_second.recip())?;
    let format = match common.output.as_deref().filter(|path| !is_stdout(path)) {
        Some(path) => {
            target::check(path, &[&args.input], common.files.existing())?;
            formats::latents_format("output", args.format, path)?
        }
        None => args.format.unwrap_or_default(),
    };
    let output = destination(common, &args.input, format.name())?;
    let samples = audio.samples() as u64 * rate;
    let samples = samples.div_ceil(u64::from(audio.sample_rate)) as usize;
    let frames = samples / hop;
    if frames == 0 {
        let least = hop as f64 / rate as f64;
        return Err(Error::from(SongError::TooShort { seconds: audio.seconds(), least }).into());
    }
    let tiling = tiling(common, Tiling::ENCODE, frames, &mut notices)?;
    let mut ready = Ready::start(common, folder)?;
    ready.started.notices.extend(notices);
    let need = memory::sizes(&ready.folder, ready.engine()).encoder(frames)?;
    memory::check(&[need], false, ready.engine())?;

    let seed = args.sample.then(|| args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>())));
    let how = codec::Encode { tiling, draw: seed.map(|seed| (NoiseSource::default(), seed)) };
    report.notes(&ready.started.notices);
    let start = Instant::now();
    let progress = Progress::new(*report);
    let made = to_latents(&audio, how, &ready, &progress)?
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
    let what = format!("{drawn}{frames} frames of {channels} numbers");
    finish(common, &output, object, &notices, &what, start, report)
}

fn decode(args: &Decode, report: &Report) -> Result<()> {
    let common = &args.common;
    let mut notices = vec![];
    let mut request = Request::default();
    args.sound.put_over(&mut request.output);
    let typed = args.sound.audio_format.as_deref();
    let output = common.output.as_deref();
    let format = formats::format(typed, output, output, &mut request, &mut notices)?;
    let encoding = Encoding::resolve(request.output.encoding(), format, &mut notices)?;
    let folder = open(common)?;
    let stored = latents::read(&args.input, folder.configs().vae.decoder_input_channels)?;
    let output = destination(common, &args.input, format.extension())?;
    let frames = stored.shape[1];
    let tiling = tiling(common, Tiling::default(), frames, &mut notices)?;
    let mut ready = Ready::start(common, folder)?;
    let need = memory::sizes(&ready.folder, ready.engine()).decoder(frames)?;
    memory::check(&[need], false, ready.engine())?;
    // A codec must not change the loudness by default.
    if request.output.enable_normalization.is_none() {
        request.output.enable_normalization = Some(false);
    }
    let seconds = frames as f64 / ready.folder.configs().vae.frames_per_second();
    let changes = request.output.plan(false, seconds, &mut notices)?;
    ready.started.notices.extend(notices);
    report.notes(&ready.started.notices);

    let start = Instant::now();
    let progress = Progress::new(*report);
    let mut audio = to_sound(&stored, tiling, &ready, &progress)?
        .context("cannot turn the latents into sound")?;
    let said = finished(&mut audio, &changes, format);
    report.notes(&said);
    output.write(&write::to_bytes(&audio, &encoding, None)?, common.files.existing())?;
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
    let said = match changes.loudness {
        Loudness::AsIs if format == Format::Wav32 => None,
        Loudness::AsIs => {
            let keeps = |Notice(text)| Notice(format!("{text}; --format wav32 keeps it"));
            changes.loudness.apply(audio).map(keeps)
        }
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
        target::check(path, &[input], common.files.existing())?;
    }
    Ok(output)
}

/// The tiles for `frames` if the command line sets them; otherwise `None`.
fn tiling(
    common: &Common,
    usual: Tiling,
    frames: usize,
    notices: &mut Vec<Notice>,
) -> Result<Option<Tiling>, Error> {
    match (common.vae_chunk, common.vae_overlap) {
        (None, None) => Ok(None),
        asked => compute::tiling(asked, usual, frames, notices).map(Some),
    }
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
        report.output(&format!("{object:#}"))?;
    } else if let Some(path) = output.file() {
        report::path(path)?;
    }
    report.line(&format!("{what} in {} · {output}", progress::seconds(start.elapsed())));
    Ok(())
}

/// Encodes `audio`. The outer error is of the device.
fn to_latents(
    audio: &Audio,
    how: codec::Encode,
    ready: &Ready,
    progress: &Progress,
) -> Result<Result<Array3, Error>, Error> {
    let folder = &ready.folder;
    on_engine!(ready.engine(),
    for<'a>(audio: &'a Audio, how: codec::Encode, folder: &'a AceStep, progress: &'a Progress)
        -> Result<Array3, Error>,
    |place: B| {
        folder.check::<B>(&place.device, &[Network::VaeEncoder]).map_err(Error::checkpoint)?;
        let networks = Networks::<B>::new(folder, place, Residency::WhileUsed);
        codec::encode(audio, how, &networks, progress)
    })
}

/// Decodes `latents`. The outer error is of the device.
fn to_sound(
    latents: &Array3,
    tiling: Option<Tiling>,
    ready: &Ready,
    progress: &Progress,
) -> Result<Result<Audio, Error>, Error> {
    let folder = &ready.folder;
    on_engine!(ready.engine(),
    for<'a>(latents: &'a Array3, tiling: Option<Tiling>, folder: &'a AceStep,
            progress: &'a Progress)
        -> Result<Audio, Error>,
    |place: B| {
        folder.check::<B>(&place.device, &[Network::VaeDecoder]).map_err(Error::checkpoint)?;
        let networks = Networks::<B>::new(folder, place, Residency::WhileUsed);
        codec::decode(latents, tiling, &networks, progress)
    })
}

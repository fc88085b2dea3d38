//! Songs of odd lengths on the device: whole, audible, repeatable, and the processor's.

use std::{path::Path, time::Instant};

use acestep_import::{Folder, Layout};
use acestep_model::{Backend, Place};
use acestep_runtime::{
    Device, Engine, Error, Parts, Plan, Request, Residency, Song, Unobserved, audio::loudness,
    device::dtype::name, host::to_host, pipeline,
};
use anyhow::{Context, Result};
use burn::tensor::DType;

use super::{
    part::{Item, Tell},
    results::{Distance, Length, Line},
};
use crate::commands::generate::run::model_info;

/// Seconds. None is a whole number of tiles; the odd ones are no whole number of patches either.
const LENGTHS: [f64; 6] = [10.0, 37.3, 61.0, 95.7, 151.0, 240.0];

/// The same for a driver in software: below and above the least that is sampled.
const QUICK: [f64; 2] = [1.3, 6.1];

pub(super) fn items(quick: bool) -> Vec<Item> {
    let name = |seconds: &f64| Item { name: format!("a song of {seconds} s"), group: 0 };
    lengths(quick).iter().map(name).collect()
}

fn lengths(quick: bool) -> &'static [f64] {
    if quick { &QUICK } else { &LENGTHS }
}

/// The model: the turbo model of a directory, or the one inside the program.
///
/// # Errors
/// Those of [`acestep_import::open`].
pub(super) fn model(models: Option<&Path>) -> Result<Folder> {
    Ok(match models {
        Some(models) => acestep_import::open("turbo", &Layout::new([models.to_owned()]))?,
        None => acestep_import::open_tiny()?,
    })
}

/// Makes the song of one length.
///
/// # Errors
/// If a network cannot be read or gives no song.
pub(super) fn run(
    index: usize,
    quick: bool,
    models: Option<&Path>,
    engine: Engine,
    tell: &Tell,
) -> Result<()> {
    let Some(&seconds) = lengths(quick).get(index) else { return Ok(()) };
    let folder = model(models)?;
    let request = Request {
        caption: Some("a calm piano melody, rain".into()),
        lyrics: Some("[Verse]\nIt rains on the roof".into()),
        duration: Some(seconds),
        seed: Some(vec![7]),
        ..Request::default()
    };
    let (plan, _) = Plan::resolve(&request, &model_info(&folder, engine)?)?;
    let sing = |times| Sing { folder: &folder, plan: &plan, times };
    let expected = match Device::Cpu.run(DType::F32, sing(1)) {
        Ok(sung) => Some(sung.context("on the processor")?),
        Err(Error::NoDevice { why, .. }) => {
            tell(Line::Skipped(format!("nothing to compare {seconds} s with: {why}")));
            None
        }
        Err(other) => return Err(other.into()),
    };
    for engine in super::engines(engine) {
        let sung = engine.run(sing(2))??;
        let (first, again) = (&sung[0], &sung[sung.len() - 1]);
        let expected = expected.as_ref().map(|sung| &sung[0]);
        let channels = |sung: &Sung| sung.song.audio.channels.concat();
        let (own, repeated) = (channels(first), channels(again));
        let limits = limits(engine.dtype);
        tell(Line::Length(Length {
            seconds,
            dtype: name(engine.dtype).to_owned(),
            samples: first.song.audio.samples(),
            expected_samples: samples(seconds, plan.hop, plan.sample_rate),
            quietest: quietest(&first.song),
            repeats: own == repeated && first.latents == again.latents,
            latents: expected
                .map(|e| Distance::between(&e.latents, &first.latents, limits.map(|l| l.0))),
            sound: expected.map(|e| Distance::between(&channels(e), &own, limits.map(|l| l.1))),
            wall_s: again.wall_s,
        }));
    }
    Ok(())
}

/// How far latents and sound may be from the processor's. In f32 only sums run in another order,
/// over eight steps and through the decoder. Reduced types are told and not judged: upstream rounds
/// the time itself, which in bf16 alone changes a song by a third.
fn limits(dtype: DType) -> Option<(f64, f64)> {
    (dtype == DType::F32).then_some((1e-4, 1e-3))
}

/// Samples of a song of `seconds`: whole latent frames only.
fn samples(seconds: f64, hop: usize, rate: u32) -> usize {
    let milliseconds = (seconds * 1e3).round() as usize;
    milliseconds * rate as usize / (1000 * hop) * hop
}

/// One rendering of a plan.
struct Sung {
    latents: Vec<f32>,
    song: Song,
    wall_s: f64,
}

struct Sing<'a> {
    folder: &'a Folder,
    plan: &'a Plan,
    times: usize,
}

impl acestep_runtime::Job for Sing<'_> {
    type Output = Result<Vec<Sung>, Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { folder, plan, times } = self;
        let parts = Parts::<B, Folder>::new(folder, place, Residency::Kept);
        let once = |_| {
            let start = Instant::now();
            let prepared = pipeline::prepare(plan, &parts, &Unobserved)?;
            let latents = pipeline::denoise(plan, &parts, prepared, &Unobserved)?;
            let values = to_host(latents.clone());
            let mut songs = pipeline::sing(plan, &parts, latents, &Unobserved)?;
            let wall_s = start.elapsed().as_secs_f64();
            Ok(Sung { latents: values, song: songs.remove(0), wall_s })
        };
        (0..times).map(once).collect()
    }
}

impl Distance {
    /// The root mean square of the difference as a share of `expected`'s.
    fn between(expected: &[f32], got: &[f32], tolerance: Option<f64>) -> Self {
        let power = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
        let difference = if expected.len() == got.len() {
            power(&mut expected.iter().zip(got).map(|(a, b)| f64::from(a - b)))
        } else {
            f64::NAN
        };
        let whole = power(&mut expected.iter().map(|&x| f64::from(x)));
        Self { relative_rms: (difference / whole).sqrt(), tolerance }
    }
}

/// The loudness of the quietest second of all channels as a share of the song's peak.
fn quietest(song: &Song) -> f64 {
    let peak = f64::from(loudness::peak(&song.audio));
    let second = song.audio.sample_rate as usize;
    let rms = |part: &[f32]| {
        let power: f64 = part.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        (power / part.len() as f64).sqrt() / peak
    };
    let channels = song.audio.channels.iter();
    channels.flat_map(|channel| channel.chunks(second).map(rms)).fold(f64::INFINITY, |a, b| {
        // `min` would drop a NaN.
        if a.is_nan() || a <= b { a } else { b }
    })
}

#[cfg(test)]
mod tests {
    use acestep_runtime::audio::Audio;

    use super::*;

    #[test]
    fn a_distance_is_a_share_of_what_was_expected() {
        let distance = |a: &[f32], b: &[f32]| Distance::between(a, b, None).relative_rms;
        assert_eq!(distance(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(distance(&[3.0, 4.0], &[0.0, 4.0]), 0.6);
        assert!(distance(&[3.0], &[3.0, 4.0]).is_nan());
        assert!(distance(&[3.0], &[f32::NAN]).is_nan());
    }

    #[test]
    fn one_silent_second_of_one_channel_is_found() {
        let song = |values: [f32; 3]| Song {
            audio: Audio { channels: vec![vec![0.5; 3], values.to_vec()], sample_rate: 1 },
            seed: 0,
        };
        assert_eq!(quietest(&song([1.0, -1.0, 0.25])), 0.25);
        assert_eq!(quietest(&song([1.0, 0.0, 1.0])), 0.0);
        assert!(quietest(&song([1.0, f32::NAN, 1.0])).is_nan());
    }

    /// 37.3 s are 932.5 frames of 1920 samples.
    #[test]
    fn a_song_has_whole_frames() {
        assert_eq!(samples(10.0, 1920, 48_000), 480_000);
        assert_eq!(samples(37.3, 1920, 48_000), 932 * 1920);
    }
}

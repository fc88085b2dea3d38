//! Songs of unusual lengths on the device: complete, audible, repeatable, and close to the CPU's.

use std::{cell::RefCell, path::Path, time::Instant};

use acestep_engine::{
    Device, Engine, Error, Event, Observe, Residency, audio::loudness, device::dtype::name,
    host::to_host,
};
use acestep_import::{AceStep, Layout};
use acestep_model::{Backend, Place};
use acestep_music::{ModelInfo, Networks, Plan, Request, Song, pipeline};
use anyhow::{Context, Result};
use burn::tensor::DType;

use crate::{
    Host,
    rows::{Distance, Item, Length, Line, Tell},
};

/// Lengths in seconds. None is a whole number of tiles; the fractional ones are not a whole number
/// of patches either.
pub(crate) const LENGTHS: [f64; 6] = [10.0, 37.3, 61.0, 95.7, 151.0, 240.0];

/// Lengths for a software driver: below and above the minimum that is sampled.
const QUICK: [f64; 2] = [1.3, 6.1];

pub(crate) fn items(quick: bool) -> Vec<Item> {
    let name = |seconds: &f64| Item { name: format!("a song of {seconds} s"), group: 0 };
    lengths(quick).iter().map(name).collect()
}

fn lengths(quick: bool) -> &'static [f64] {
    if quick { &QUICK } else { &LENGTHS }
}

/// Opens the turbo model of a directory, or the built-in model.
///
/// # Errors
/// Errors of [`acestep_import::open`].
pub(crate) fn model(models: Option<&Path>) -> Result<AceStep> {
    Ok(match models {
        Some(models) => acestep_import::open("turbo", &Layout::new([models.to_owned()]))?,
        None => acestep_import::open_tiny()?,
    })
}

/// Makes the song of one length.
///
/// # Errors
/// If a network cannot be read or makes no song.
pub(crate) fn run(
    index: usize,
    quick: bool,
    models: Option<&Path>,
    engine: Engine,
    host: &dyn Host,
    tell: &Tell,
) -> Result<()> {
    let Some(&seconds) = lengths(quick).get(index) else { return Ok(()) };
    let folder = model(models)?;
    let plan = |seconds| plan(&folder, seconds);
    let own = plan(seconds)?;
    let on_processor = |plan: &Plan, dtype| -> Result<Sung> {
        let sung = Device::Cpu.run(dtype, Sing { folder: &folder, plan, times: 1, host })?;
        Ok(sung.context("the song on the processor failed")?.remove(0))
    };
    let expected = match Device::Cpu.check() {
        Ok(()) => Some(on_processor(&own, DType::F32)?),
        Err(absent) => {
            tell(Line::Skipped(format!("nothing to compare {seconds} s with: {absent}")));
            None
        }
    };
    for engine in engines(engine) {
        let sung = engine.run(Sing { folder: &folder, plan: &own, times: 2, host })??;
        let (first, again) = (&sung[0], &sung[sung.len() - 1]);
        let mut row = Length {
            seconds,
            dtype: name(engine.dtype).to_owned(),
            samples: first.song.audio.samples(),
            expected_samples: samples(seconds, own.length.hop, own.length.sample_rate),
            quietest: quietest(&first.song),
            repeats: first.channels() == again.channels() && first.latents == again.latents,
            overflowed: first.told.overflowed.clone(),
            notes: first.told.again.clone(),
            latents: None,
            sound: None,
            wall_s: again.wall_s,
        };
        if let Some(expected) = &expected {
            let [latents, sound] = if engine.dtype == DType::F32 {
                let limits = [LATENTS, SOUND].map(|limit| (limit, None));
                expected.distances(first, limits)
            } else {
                let (measured, times) = yardstick(seconds);
                let shares = if measured == seconds {
                    expected.shares(&on_processor(&own, engine.dtype)?)
                } else {
                    let short = plan(measured)?;
                    let exact = on_processor(&short, DType::F32)?;
                    exact.shares(&on_processor(&short, engine.dtype)?)
                };
                expected.distances(first, shares.map(|share| (times * share, Some(share))))
            };
            (row.latents, row.sound) = (Some(latents), Some(sound));
        }
        tell(Line::Length(row));
    }
    Ok(())
}

/// Returns the engine in f32, which has the tightest tolerances, and in the requested type.
fn engines(engine: Engine) -> impl Iterator<Item = Engine> {
    let exact = Engine { dtype: DType::F32, ..engine };
    std::iter::once(exact).chain((engine != exact).then_some(engine))
}

/// Tolerances of latents and sound to the CPU in f32. Only the order of sums differs, over eight
/// steps and through the decoder.
const LATENTS: f64 = 1e-4;
const SOUND: f64 = 1e-3;

/// The longest song that the CPU also makes in the reduced type.
pub(crate) const LONGEST_OWN: f64 = 61.0;
/// Tolerance in a reduced type, as a multiple of the CPU song's distance from f32: for a song of
/// the same length, and for one of another length.
pub(crate) const TIMES_OWN: f64 = 1.5;
pub(crate) const TIMES_SHORT: f64 = 2.0;

/// Returns the length of the reference song for a song of `seconds`, and the allowed multiple of
/// its distance. The distance is measured on the CPU, between the reduced type and f32.
///
/// No fixed tolerance fits all models and types: upstream rounds the time itself, and in bf16 that
/// alone changes a song by a sixth. (The CPU rounds weights and times to bf16, but no intermediate
/// values.)
///
/// On the CPU f16 takes three times as long as f32: the tiny model's 37 s take 25 s on two cores.
/// So long songs are compared with a short one. The distance hardly depends on the length. From 1.3
/// to 37 s, latents in bf16 are 5.0 to 5.1 % away, and sound 15.9 to 16.6 %. In f16 latents are 0.6
/// % away, and sound 3.4 to 3.5 %.
fn yardstick(seconds: f64) -> (f64, f64) {
    if seconds <= LONGEST_OWN { (seconds, TIMES_OWN) } else { (LENGTHS[0], TIMES_SHORT) }
}

/// Returns the plan of a song of `seconds`.
fn plan(folder: &AceStep, seconds: f64) -> Result<Plan> {
    let request = Request::default().with(|r| {
        r.words.caption = Some("a calm piano melody, rain".into());
        r.words.lyrics = Some("[Verse]\nIt rains on the roof".into());
        r.words.duration = Some(seconds);
        r.noise.seed = Some(vec![7]);
    });
    let model = ModelInfo::new(folder.name(), folder.is_turbo(), folder.configs());
    Ok(Plan::resolve(&request, &model)?.0)
}

/// Returns the samples of a song of `seconds`, in whole latent frames.
fn samples(seconds: f64, hop: usize, rate: u32) -> usize {
    let milliseconds = (seconds * 1e3).round() as usize;
    milliseconds * rate as usize / (1000 * hop) * hop
}

/// One rendering of a plan.
struct Sung {
    latents: Vec<f32>,
    song: Song,
    wall_s: f64,
    told: Told,
}

impl Sung {
    fn channels(&self) -> Vec<f32> {
        self.song.audio.channels.concat()
    }

    /// Returns the distances of `other`'s latents and sound from these.
    fn shares(&self, other: &Self) -> [f64; 2] {
        [share(&self.latents, &other.latents), share(&self.channels(), &other.channels())]
    }

    /// Returns the same distances with their limits: the tolerance, and the CPU's own distance.
    fn distances(&self, other: &Self, limits: [(f64, Option<f64>); 2]) -> [Distance; 2] {
        let [latents, sound] = self.shares(other);
        [(latents, limits[0]), (sound, limits[1])].map(|(relative_rms, (tolerance, processor))| {
            Distance { relative_rms, tolerance, processor }
        })
    }
}

/// Problems that a run recovered from, as text.
#[derive(Debug, Clone, Default, PartialEq)]
struct Told {
    /// Networks whose values exceeded the range of the type; their results are from f32.
    overflowed: Vec<String>,
    /// Stages that did not fit into memory at first.
    again: Vec<String>,
}

/// Records the problems that a run recovered from.
struct Listener<'a> {
    told: RefCell<Told>,
    host: &'a dyn Host,
}

impl Observe for Listener<'_> {
    fn event(&self, event: Event) {
        let mut told = self.told.borrow_mut();
        match event {
            Event::Overflowed { who, dtype } => {
                told.overflowed.push(format!("{who} overflowed in {}", name(dtype)));
            }
            Event::Again { stage, frames, why } => {
                let what = stage.name;
                told.again.push(format!("the {what} failed ({why}); again with {frames} frames"));
            }
            Event::Loading(_)
            | Event::Advanced { .. }
            | Event::Finished { .. }
            | Event::Noticed(_) => {}
        }
    }

    fn cancelled(&self) -> bool {
        self.host.is_cancelled()
    }
}

struct Sing<'a> {
    folder: &'a AceStep,
    plan: &'a Plan,
    times: usize,
    host: &'a dyn Host,
}

impl acestep_engine::BackendWork for Sing<'_> {
    type Output = Result<Vec<Sung>, Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { folder, plan, times, host } = self;
        let networks = Networks::<B>::new(folder, place, Residency::Kept);
        let once = |_| {
            let listener = Listener { told: RefCell::default(), host };
            let start = Instant::now();
            let prepared = pipeline::prepare(plan, &networks, &listener)?;
            let latents = pipeline::denoise(plan, &networks, prepared, &listener)?;
            let values = to_host(latents.clone());
            let mut songs = pipeline::decode_songs(plan, &networks, latents, &listener)?;
            let wall_s = start.elapsed().as_secs_f64();
            Ok(Sung { latents: values, song: songs.remove(0)?, wall_s, told: listener.told.take() })
        };
        (0..times).map(once).collect()
    }
}

/// Returns the root mean square of the difference as a share of `expected`'s.
pub(crate) fn share(expected: &[f32], got: &[f32]) -> f64 {
    let power = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let difference = if expected.len() == got.len() {
        power(&mut expected.iter().zip(got).map(|(a, b)| f64::from(a - b)))
    } else {
        f64::NAN
    };
    (difference / power(&mut expected.iter().map(|&x| f64::from(x)))).sqrt()
}

/// Returns the loudness of the quietest second of all channels as a share of the song's peak.
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
    use acestep_engine::audio::Audio;

    use acestep_music::stage;

    use super::*;
    use crate::host::QUIET;

    #[test]
    fn a_distance_is_a_share_of_what_was_expected() {
        assert_eq!(share(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(share(&[3.0, 4.0], &[0.0, 4.0]), 0.6);
        assert!(share(&[3.0], &[3.0, 4.0]).is_nan());
        assert!(share(&[3.0], &[f32::NAN]).is_nan());
    }

    #[test]
    fn a_song_in_bf16_is_held_to_the_processors_own() {
        let rows = RefCell::new(Vec::new());
        let engine = Engine { device: Device::Cpu, dtype: DType::BF16 };
        let tell = |line| match line {
            Line::Length(row) => rows.borrow_mut().push(row),
            other => panic!("{other:?}"),
        };
        run(0, true, None, engine, &QUIET, &tell).expect("songs");
        let [exact, narrow] = &rows.take()[..] else { panic!("a row a type") };
        let distances = |row: &Length| [row.latents, row.sound].map(|d| d.expect("compared"));
        for (distance, tolerance) in distances(exact).into_iter().zip([LATENTS, SOUND]) {
            assert_eq!(distance, Distance { relative_rms: 0.0, tolerance, processor: None });
        }
        for distance in distances(narrow) {
            // Here the CPU is compared with itself.
            assert_eq!(distance.processor, Some(distance.relative_rms));
            assert_eq!(distance.tolerance, 1.5 * distance.relative_rms);
            assert!((0.01..0.3).contains(&distance.relative_rms), "{distance:?}");
        }
        assert_eq!([exact.problems(), narrow.problems()], [vec![], Vec::<String>::new()]);
    }

    #[test]
    fn a_long_song_in_a_reduced_type_is_held_to_a_short_one() {
        assert_eq!(yardstick(61.0), (61.0, 1.5));
        assert_eq!(yardstick(95.7), (10.0, 2.0));
    }

    #[test]
    fn what_a_run_got_over_is_written_down() {
        let listener = Listener { told: RefCell::default(), host: &QUIET };
        listener.event(Event::Loading(stage::VAE));
        listener.event(Event::Overflowed { who: "the VAE", dtype: DType::F16 });
        listener.event(Event::Again { stage: stage::VAE, frames: 224, why: "full".into() });
        let overflowed = vec!["the VAE overflowed in f16".to_owned()];
        let again = vec!["the VAE failed (full); again with 224 frames".to_owned()];
        assert_eq!(listener.told.take(), Told { overflowed, again });
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

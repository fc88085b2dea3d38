//! Features of a song's sound, as a fixed vector of named numbers.
//!
//! The values are means over the sounding frames of the mid channel. Perceptual units (octaves and
//! decibels) make distances meaningful. Sources: Tzanetakis & Cook 2002, "Musical genre
//! classification of audio signals" (centroid, rolloff, flux, zero crossings); Peeters 2004,
//! CUIDADO report (spread, flatness, crest); Davis & Mermelstein 1980 (cepstra, here of the mean
//! third-octave spectrum).

use std::f64::consts::PI;

use super::{RATE, Sound, onset::Onsets, spectrum::Spectrogram};

const SIZE: usize = 4_096;
const HOP: usize = 2_048;

/// Share of the power below the rolloff.
const ROLLOFF: f64 = 0.85;

/// Edges in Hz of the bands of the `share_` features.
const SHARES: [f64; 7] = [30.0, 90.0, 200.0, 500.0, 1_500.0, 5_000.0, 16_000.0];

/// Names of the features, in order.
pub const NAMES: [&str; COUNT] = [
    "loudness_db",
    "crest_db",
    "dynamics_db",
    "width_db",
    "zero_crossings_hz",
    "centroid_hz",
    "spread_octaves",
    "rolloff_hz",
    "flatness_db",
    "share_sub_db",
    "share_bass_db",
    "share_low_middle_db",
    "share_middle_db",
    "share_presence_db",
    "share_air_db",
    "onsets_low_hz",
    "onsets_middle_hz",
    "onsets_high_hz",
    "percussive_low",
    "percussive_middle",
    "percussive_high",
    "cepstrum_1",
    "cepstrum_2",
    "cepstrum_3",
    "cepstrum_4",
    "cepstrum_5",
    "cepstrum_6",
];

const COUNT: usize = 27;
const CEPSTRA: usize = 6;

/// The features of a song; see [`NAMES`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Features {
    values: [f64; COUNT],
}

impl Features {
    /// Returns the feature `name`, in the unit at the end of its name; `None` if there is none.
    pub fn get(&self, name: &str) -> Option<f64> {
        let place = NAMES.iter().position(|known| *known == name)?;
        // These frequencies are stored as octaves above 1 Hz.
        let octaves = matches!(name, "zero_crossings_hz" | "centroid_hz" | "rolloff_hz");
        Some(if octaves { self.values[place].exp2() } else { self.values[place] })
    }

    /// Returns all values in the order of [`NAMES`]; the three frequencies as `log2` of Hz.
    pub fn values(&self) -> &[f64; COUNT] {
        &self.values
    }
}

/// Computes the features of a song.
pub fn features<'a>(sound: impl Into<Sound<'a>>) -> Features {
    let sound = sound.into();
    let mid = sound.mid();
    let level = Level::new(&mid, &sound.side());
    let shape = Shape::new(&mid);
    let onsets = Onsets::new(&mid);
    let mut values = vec![level.rms_db, level.crest_db, level.dynamics_db, level.width_db];
    values.push(octaves(level.crossings_hz));
    values.extend([octaves(shape.centroid_hz), shape.spread, octaves(shape.rolloff_hz)]);
    values.push(shape.flatness_db);
    values.extend(shape.shares_db);
    values.extend((0..3).map(|register| onset_rate(&onsets, register)));
    values.extend((0..3).map(|register| percussiveness(&onsets, register)));
    values.extend(shape.cepstrum);
    let mut all = [0.0; COUNT];
    all.iter_mut().zip(&values).for_each(|(into, value)| *into = *value);
    Features { values: all }
}

/// Features in the time domain; levels are in dBFS.
struct Level {
    rms_db: f64,
    crest_db: f64,
    dynamics_db: f64,
    width_db: f64,
    crossings_hz: f64,
}

impl Level {
    fn new(mid: &[f32], side: &[f32]) -> Self {
        let power = |x: &[f32]| {
            x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / x.len().max(1) as f64
        };
        let peak = mid.iter().fold(0.0f32, |a, x| a.max(x.abs()));
        // Windows of 50 ms. Those 40 dB below the mean are pauses and do not count.
        let windows: Vec<f64> = mid.chunks((0.05 * RATE) as usize).map(power).collect();
        let whole = power(mid);
        let sounding = windows.iter().filter(|p| **p > 1e-4 * whole).map(|p| db(*p));
        let crossings = mid.windows(2).filter(|w| (w[0] < 0.0) != (w[1] < 0.0)).count();
        Self {
            rms_db: db(whole),
            crest_db: db(f64::from(peak).powi(2)) - db(whole),
            dynamics_db: deviation(&sounding.collect::<Vec<_>>()),
            width_db: (db(power(side)) - db(whole)).max(-60.0),
            crossings_hz: crossings as f64 * RATE / mid.len().max(1) as f64,
        }
    }
}

/// Features of the spectrum.
struct Shape {
    centroid_hz: f64,
    spread: f64,
    rolloff_hz: f64,
    flatness_db: f64,
    shares_db: [f64; 6],
    cepstrum: [f64; CEPSTRA],
}

impl Shape {
    fn new(mid: &[f32]) -> Self {
        let spectrogram = Spectrogram::new(mid, SIZE, HOP, RATE);
        let mut power = vec![0.0f64; spectrogram.bins];
        let (mut flatness, mut frames) = (0.0, 0.0f64);
        for frame in spectrogram.frames() {
            if frame.iter().all(|m| *m < 1e-5) {
                continue;
            }
            power.iter_mut().zip(frame).for_each(|(sum, m)| *sum += f64::from(*m).powi(2));
            let heard = &frame[(100.0 / spectrogram.bin_hz) as usize..];
            let mean_log = heard.iter().map(|m| db(f64::from(*m).powi(2))).sum::<f64>();
            let mean = heard.iter().map(|m| f64::from(*m).powi(2)).sum::<f64>();
            flatness += (mean_log - heard.len() as f64 * db(mean / heard.len() as f64))
                / heard.len() as f64;
            frames += 1.0;
        }
        let hz = |bin: usize| bin as f64 * spectrogram.bin_hz;
        let total = power.iter().sum::<f64>().max(1e-12);
        let centroid = power.iter().enumerate().map(|(bin, p)| p * hz(bin)).sum::<f64>() / total;
        let distance = |bin: usize| (hz(bin.max(1)) / centroid.max(1.0)).log2().powi(2);
        let spread = power.iter().enumerate().map(|(bin, p)| p * distance(bin)).sum::<f64>();
        let mut below = 0.0;
        let rolloff = power.iter().position(|p| {
            below += p;
            below >= ROLLOFF * total
        });
        let band = |low: f64, high: f64| {
            let inside =
                power.iter().enumerate().filter(|(bin, _)| (low..high).contains(&hz(*bin)));
            inside.map(|(_, p)| p).sum::<f64>()
        };
        let mut shares_db = [0.0; 6];
        for (share, edge) in shares_db.iter_mut().zip(SHARES.windows(2)) {
            *share = db(band(edge[0], edge[1]) / total).max(-60.0);
        }
        let edges: Vec<f64> = (0..28).map(|i| 40.0 * 2f64.powf(f64::from(i) / 3.0)).collect();
        let thirds: Vec<f64> =
            edges.windows(2).map(|e| db(band(e[0], e[1]) / total).max(-80.0)).collect();
        Self {
            centroid_hz: centroid,
            spread: (spread / total).sqrt(),
            rolloff_hz: rolloff.map_or(0.0, hz),
            flatness_db: flatness / frames.max(1.0),
            shares_db,
            cepstrum: cepstrum(&thirds),
        }
    }
}

/// Computes the discrete cosine transform of a spectrum in dB, without the constant term.
fn cepstrum(bands: &[f64]) -> [f64; CEPSTRA] {
    let size = bands.len() as f64;
    let mut out = [0.0; CEPSTRA];
    for (order, value) in (1..).zip(out.iter_mut()) {
        let wave = |i: usize| (PI * f64::from(order) * (i as f64 + 0.5) / size).cos();
        *value = bands.iter().enumerate().map(|(i, band)| band * wave(i)).sum::<f64>() / size;
    }
    out
}

/// Returns the onsets per second in a register: peaks above a fifth of the register's strongest.
fn onset_rate(onsets: &Onsets, register: usize) -> f64 {
    let strength = |t: usize| onsets.frames[t][register];
    let frames = onsets.frames.len();
    let strongest = (0..frames).map(strength).fold(0.5, f32::max);
    let near = (0.03 * onsets.rate) as usize;
    let peak = |t: &usize| {
        let around = t.saturating_sub(near)..frames.min(t + near + 1);
        let here = strength(*t);
        here > 0.2 * strongest
            && around.clone().all(|o| strength(o) < here || (o >= *t && strength(o) <= here))
    };
    (0..frames).filter(peak).count() as f64 * onsets.rate / frames.max(1) as f64
}

/// Returns the mean strength of a register's strongest tenth of frames over its mean, in dB.
fn percussiveness(onsets: &Onsets, register: usize) -> f64 {
    let mut sorted: Vec<f64> = onsets.frames.iter().map(|f| f64::from(f[register])).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len().max(1) as f64;
    10.0 * ((mean(&sorted[..sorted.len() / 10]) + 1e-3) / (mean(&sorted) + 1e-3)).log10()
}

fn deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
}

/// Returns a power in dB, at least -120.
fn db(power: f64) -> f64 {
    10.0 * power.max(1e-12).log10()
}

fn octaves(hz: f64) -> f64 {
    hz.max(1.0).log2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::synth;

    fn of(samples: &[f32], name: &str) -> f64 {
        features(&[samples.to_vec(), samples.to_vec()]).get(name).expect("a known name")
    }

    #[test]
    fn a_tone_has_its_own_frequency_as_centroid_rolloff_and_crossings() {
        for hz in [220.0, 1_000.0, 4_000.0] {
            let step = std::f64::consts::TAU * hz / RATE;
            let tone: Vec<f32> = (0..96_000).map(|n| (step * f64::from(n)).sin() as f32).collect();
            assert!((of(&tone, "centroid_hz") / hz - 1.0).abs() < 0.02);
            assert!((of(&tone, "rolloff_hz") / hz - 1.0).abs() < 0.06);
            assert!((of(&tone, "zero_crossings_hz") / (2.0 * hz) - 1.0).abs() < 0.01);
            assert!((of(&tone, "loudness_db") + 3.01).abs() < 0.05);
            assert!((of(&tone, "crest_db") - 3.01).abs() < 0.05);
        }
    }

    #[test]
    fn onsets_are_counted_in_their_register() {
        let mut samples = vec![0.0; 5 * 48_000];
        (0..20).for_each(|i| {
            synth::add_tone(&mut samples, 0.1 + 0.24 * f64::from(i), 0.1, 800.0, 0.4)
        });
        assert!((of(&samples, "onsets_middle_hz") - 4.0).abs() < 0.3);
        assert!(of(&samples, "onsets_low_hz") < 4.3);
    }

    #[test]
    fn noise_is_flat_and_wide_only_if_the_channels_differ() {
        let mut noise = vec![0.0; 96_000];
        synth::add_noise(&mut noise, 0.0, 2.0, 0.3, 0.0);
        let mut other = noise.clone();
        other.rotate_left(1_000);
        let mono = features(&[noise.clone(), noise.clone()]);
        let wide = features(&[noise, other]);
        assert!(mono.get("flatness_db").is_some_and(|flat| flat > -4.0));
        assert!(mono.get("width_db").is_some_and(|width| width <= -60.0));
        assert!(wide.get("width_db").is_some_and(|width| width.abs() < 1.5));
    }
}

//! Tempo: the steady pulse that a person would tap.
//!
//! 1. [`Onsets`]: log-compressed spectral flux in three registers.
//! 2. The spectrum of the whole envelope gives the periods in the song: peaks of the harmonic sum
//!    `H(f) = sum_h |E(h f)|`, `h = 1..=8`. (This is the comb of Klapuri et al. 2006 and of
//!    Percival & Tzanetakis 2014, computed in the frequency domain for all lags at once.)
//! 3. Simple ratios of these periods are candidates too, because `H` cannot distinguish a beat from
//!    its half. Each is refined to the maximum of `H`. Over 10 s the error is far below 1 %.
//! 4. [`Accents`] selects the beat from the candidates, with a weak preference for middle tempi
//!    (log-normal around 110 bpm, as in Ellis 2007 and Parncutt 1994).

use acestep_engine::audio::fft;

use super::{
    Sound,
    onset::Onsets,
    pulse::{Accents, Pulse},
};

/// The slowest tempo that counts as a beat, in bpm.
pub const SLOWEST: f64 = 55.0;

/// The fastest tempo that counts as a beat, in bpm.
pub const FASTEST: f64 = 190.0;

/// Centre of the preferred tempi in bpm, and the width of the preference in octaves.
const PREFERRED: (f64, f64) = (110.0, 1.6);

/// Number of peaks of the harmonic sum that give candidates.
const PEAKS: usize = 6;

/// Ratios between metrical levels that are easy to confuse: half, third, dotted and so on.
const RATIOS: [f64; 11] =
    [1.0, 0.5, 2.0, 1.0 / 3.0, 3.0, 2.0 / 3.0, 1.5, 0.75, 4.0 / 3.0, 0.25, 4.0];

/// The tempo of a song.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tempo {
    /// Beats per minute, within [`SLOWEST`]`..=`[`FASTEST`]; 0 if the song has no onsets.
    pub bpm: f64,
    /// Regularity: share of accent on the beat times share of beats with an onset, `0..=1`.
    pub strength: f64,
    /// Lead over the second best tempo: `1 - second score / best score`, `0..=1`.
    pub confidence: f64,
    /// The second best tempo in bpm.
    pub runner_up: f64,
}

/// Measures the tempo of a song of constant tempo, which must have 8 s or more.
pub fn tempo<'a>(sound: impl Into<Sound<'a>>) -> Tempo {
    let onsets = Onsets::new(&sound.into().mid());
    let ranked = rank(&onsets);
    let Some(&(best, pulse)) = ranked.first() else {
        return Tempo { bpm: 0.0, strength: 0.0, confidence: 0.0, runner_up: 0.0 };
    };
    let (second, other) = ranked.get(1).map_or((0.0, pulse), |&(score, pulse)| (score, pulse));
    Tempo {
        bpm: 60.0 / pulse.period_s,
        strength: pulse.precision * pulse.recall,
        confidence: 1.0 - second / best.max(1e-9),
        runner_up: 60.0 / other.period_s,
    }
}

/// Returns all candidates with their scores, best first.
fn rank(onsets: &Onsets) -> Vec<(f64, Pulse)> {
    let comb = Comb::new(onsets);
    let accents = Accents::new(onsets);
    let mut ranked: Vec<(f64, Pulse)> = comb
        .candidates()
        .into_iter()
        .map(|bpm| {
            let pulse = accents.pulse(60.0 / bpm);
            (score(&pulse), pulse)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked
}

fn score(pulse: &Pulse) -> f64 {
    let (centre, width) = PREFERRED;
    let octaves = (60.0 / pulse.period_s / centre).log2();
    let preference = (-0.5 * (octaves / width).powi(2)).exp();
    pulse.precision * pulse.recall.powi(2) * preference
}

/// The harmonic sum over the spectrum of the onset envelope.
struct Comb {
    /// Magnitudes of the envelope's spectrum.
    spectrum: Vec<f32>,
    /// Width of a bin in beats per minute.
    bin_bpm: f64,
}

/// Length of the zero-padded envelope: 700 s, which makes a bin 0.086 bpm wide.
const PADDED: usize = 1 << 17;

const HARMONICS: usize = 8;

impl Comb {
    fn new(onsets: &Onsets) -> Self {
        let mut envelope = onsets.weighted([1.0, 1.0, 0.5]);
        envelope.truncate(PADDED);
        let mean = envelope.iter().sum::<f32>() / envelope.len().max(1) as f32;
        envelope.iter_mut().for_each(|value| *value -= mean);
        envelope.resize(PADDED, 0.0);
        let plan = fft::forward(PADDED);
        let mut output = plan.make_output_vec();
        // The lengths come from the plan, so the transform cannot fail.
        let spectrum = match plan.process(&mut envelope, &mut output) {
            Ok(()) => output.iter().map(|value| value.norm()).collect(),
            Err(_) => Vec::new(),
        };
        Self { spectrum, bin_bpm: 60.0 * onsets.rate / PADDED as f64 }
    }

    /// Returns the refined candidate tempi.
    fn candidates(&self) -> Vec<f64> {
        let steps = ((FASTEST / SLOWEST).ln() / 0.002).ceil() as usize;
        let grid: Vec<f64> = (0..=steps).map(|i| SLOWEST * (0.002 * i as f64).exp()).collect();
        let sums: Vec<f64> = grid.iter().map(|&bpm| self.sum(bpm)).collect();
        let mut peaks: Vec<usize> = (0..grid.len())
            .filter(|&i| {
                let around = &sums[i.saturating_sub(3)..grid.len().min(i + 4)];
                sums[i] > 0.0 && around.iter().all(|&other| other <= sums[i])
            })
            .collect();
        peaks.sort_by(|&a, &b| sums[b].total_cmp(&sums[a]));
        let mut found: Vec<f64> = Vec::new();
        for bpm in peaks.iter().take(PEAKS).flat_map(|&i| RATIOS.map(|ratio| grid[i] * ratio)) {
            if (SLOWEST..=FASTEST).contains(&bpm) {
                let bpm = self.refined(bpm);
                if found.iter().all(|other| (bpm / other - 1.0).abs() > 0.01) {
                    found.push(bpm);
                }
            }
        }
        found
    }

    /// Returns the maximum of the harmonic sum within 2 % of `bpm`.
    fn refined(&self, bpm: f64) -> f64 {
        let near = (-200..=200).map(|step| bpm * (1.0 + 1e-4 * f64::from(step)));
        let sums = near.map(|bpm| (bpm, self.sum(bpm)));
        sums.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(bpm, |(bpm, _)| bpm)
    }

    fn sum(&self, bpm: f64) -> f64 {
        (1..=HARMONICS).map(|h| self.at(h as f64 * bpm)).sum()
    }

    /// Returns the magnitude at `bpm`, with linear interpolation between bins.
    fn at(&self, bpm: f64) -> f64 {
        let place = bpm / self.bin_bpm;
        let (bin, part) = (place as usize, place.fract());
        let value = |bin: usize| self.spectrum.get(bin).map_or(0.0, |&value| f64::from(value));
        (1.0 - part) * value(bin) + part * value(bin + 1)
    }
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;
    use crate::listener::synth::{Beat, TestSong};

    #[test]
    fn clicks_with_soft_eighth_hats_give_the_tempo_of_the_clicks() {
        for bpm in [61.0, 76.3, 93.5, 120.0, 147.7, 177.0] {
            let sound = TestSong { bpm, beat: Beat::Clicks, ..TestSong::default() }.render();
            let heard = tempo(&sound);
            assert!((heard.bpm / bpm - 1.0).abs() < 0.003, "{bpm}: {heard:?}");
        }
    }

    #[test]
    fn every_pattern_of_drums_gives_its_tempo() {
        let tempi = [62.0, 71.5, 84.0, 108.0, 118.5, 140.0, 155.0, 174.0];
        let songs = Beat::ALL.into_par_iter().flat_map_iter(|beat| tempi.map(|bpm| (beat, bpm)));
        let wrong = |(beat, bpm): (Beat, f64)| {
            let heard = tempo(&TestSong { bpm, beat, ..TestSong::default() }.render());
            let is_wrong = (heard.bpm / bpm - 1.0).abs() > 0.005;
            is_wrong.then(|| format!("{beat:?} {bpm}: {heard:?}"))
        };
        let wrong: Vec<String> = songs.filter_map(wrong).collect();
        let all = Beat::ALL.len() * tempi.len();
        assert!(wrong.len() * 50 <= all, "{} of {all}: {wrong:#?}", wrong.len());
    }

    #[test]
    fn silence_has_no_tempo() {
        assert_eq!(tempo(&[vec![0.0; 480_000], vec![0.0; 480_000]]).bpm, 0.0);
    }
}

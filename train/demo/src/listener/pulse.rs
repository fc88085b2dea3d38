//! The match between a steady pulse and the onsets of a song.
//!
//! People tap at the slowest pulse that meets *all* strong onsets. A pulse twice as slow leaves
//! half of them between its taps; one twice as fast taps on weak onsets or on none. This is a
//! balance of precision and recall:
//!
//! - precision: the share of all accent (salience to the power [`ACCENT`]) on the pulse,
//! - recall: the share of the taps that meet an onset of full strength.
//!
//! The low and middle registers carry the beat and the high register its subdivisions, so the
//! salience is weighted by [`WEIGHTS`]. Sources: Klapuri et al. 2006 (similar weights of low
//! bands); Percival & Tzanetakis 2014, "Streamlined tempo estimation" (score of pulse trains
//! against the whole envelope).

use super::onset::{Onsets, REGISTERS};

/// Weights of the low, middle and high register in the salience.
const WEIGHTS: [f32; REGISTERS] = [1.0, 1.0, 0.35];

/// Exponent that makes one strong onset count more than several soft ones.
const ACCENT: f64 = 1.5;

/// Maximum distance of an onset from its tap, in seconds and as a share of the period.
const NEAR_S: f64 = 0.03;
const NEAR_SHARE: f64 = 0.09;

/// Share of the usual strength at which a tap counts fully.
const MET: f64 = 0.6;

/// The accents of a song: salience over time, and statistics of its peaks.
pub(super) struct Accents {
    rate: f64,
    salience: Vec<f32>,
    /// Sum of all peaks, each to the power [`ACCENT`].
    total: f64,
    /// Mean strength of the onsets, weighted by accent, so that strong ones dominate.
    typical: f64,
}

/// A pulse, and its match with the accents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pulse {
    /// Seconds between two taps.
    pub period_s: f64,
    /// Share of the accent on the pulse, `0..=1`.
    pub precision: f64,
    /// Share of the taps that meet an onset, `0..=1`.
    pub recall: f64,
}

impl Accents {
    /// Computes the accents of the weighted onsets.
    pub(super) fn new(onsets: &Onsets) -> Self {
        let salience = onsets.weighted(WEIGHTS);
        let peaks = salience.windows(3).filter(|w| w[1] > w[0] && w[1] >= w[2]);
        let peaks: Vec<f64> = peaks.map(|w| f64::from(w[1])).collect();
        let total = peaks.iter().map(|peak| peak.powf(ACCENT)).sum::<f64>();
        let typical =
            peaks.iter().map(|peak| peak.powf(ACCENT + 1.0)).sum::<f64>() / total.max(1e-9);
        Self { rate: onsets.rate, salience, total, typical }
    }

    /// Returns the pulse of `period_s` at its best phase.
    pub(super) fn pulse(&self, period_s: f64) -> Pulse {
        let steps = (period_s * self.rate).ceil() as usize;
        let mean_at = |phase: usize| {
            let taps = self.taps(period_s, phase as f64 / self.rate, 0);
            taps.iter().sum::<f64>() / taps.len().max(1) as f64
        };
        let phases = (0..steps).map(|phase| (phase, mean_at(phase)));
        let best = phases.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(phase, _)| phase);
        let phase_s = best as f64 / self.rate;
        let near = (NEAR_S.min(NEAR_SHARE * period_s) * self.rate).round() as usize;
        let taps = self.taps(period_s, phase_s, near);
        let on_pulse: f64 = taps.iter().map(|tap| tap.powf(ACCENT)).sum();
        Pulse {
            period_s,
            precision: (on_pulse / self.total.max(1e-9)).min(1.0),
            recall: recall(&taps, self.typical),
        }
    }

    /// Returns the largest salience within `near` frames of each tap.
    fn taps(&self, period_s: f64, phase_s: f64, near: usize) -> Vec<f64> {
        let frames = self.salience.len();
        let at = |tap: usize| ((phase_s + tap as f64 * period_s) * self.rate).round() as usize;
        (0..)
            .map(at)
            .take_while(|&frame| frame < frames)
            .map(|frame| {
                let window =
                    &self.salience[frame.saturating_sub(near)..frames.min(frame + near + 1)];
                f64::from(window.iter().fold(0.0f32, |a, &b| a.max(b)))
            })
            .collect()
    }
}

/// Returns the mean of `min(1, tap / (MET usual))`.
///
/// The usual strength is the upper quartile of the taps, but at least 0.7 `typical`. Otherwise a
/// pulse whose taps mostly miss would lower its own standard.
fn recall(taps: &[f64], typical: f64) -> f64 {
    let mut sorted = taps.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quartile = sorted.get(sorted.len() * 3 / 4).copied().unwrap_or(0.0);
    let usual = quartile.max(0.7 * typical).max(1e-9);
    taps.iter().map(|tap| (tap / (MET * usual)).min(1.0)).sum::<f64>() / taps.len().max(1) as f64
}

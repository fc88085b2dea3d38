//! Drum hits: rendered once per piece, then added at every onset.

use super::{SAMPLE_RATE, filter::Filter};
use crate::composer::{dice::Dice, instrument::Instrument, style::Style};

/// Renders one hit of a drum at full velocity, with a peak of 1 and the onset at the first sample.
pub(super) fn hit(instrument: Instrument, style: Style, dice: &mut Dice) -> Vec<f32> {
    let tune = dice.real(0.9, 1.12);
    let length = dice.real(0.85, 1.2);
    let mut hit = match instrument {
        Instrument::Kick => kick(&Kick::of(style), tune, length, dice),
        Instrument::Snare => {
            let (tone, body) =
                if style == Style::LofiHipHop { (0.7, 3_800.0) } else { (0.6, 7_500.0) };
            snare(185.0 * tune, 0.1 * length, tone, body, dice)
        }
        Instrument::Clap => noise(
            &Noise { low: 900.0, high: 5_500.0, decay_s: 0.09 * length, attack_s: 0.0005 },
            dice,
        ),
        Instrument::Rim => rim(1_500.0 * tune, dice),
        Instrument::Hat => noise(
            &Noise {
                low: 5_500.0 * tune,
                high: 9_000.0,
                decay_s: 0.022 * length,
                attack_s: 0.0005,
            },
            dice,
        ),
        Instrument::OpenHat => noise(
            &Noise { low: 5_000.0 * tune, high: 9_000.0, decay_s: 0.07 * length, attack_s: 0.0005 },
            dice,
        ),
        Instrument::Shaker => noise(
            &Noise { low: 3_800.0 * tune, high: 8_500.0, decay_s: 0.03 * length, attack_s: 0.006 },
            dice,
        ),
        _ => noise(
            &Noise { low: 3_000.0 * tune, high: 9_000.0, decay_s: 0.3 * length, attack_s: 0.0005 },
            dice,
        ),
    };
    let peak = hit.iter().fold(0.0f32, |peak, sample| peak.max(sample.abs())).max(1e-9);
    hit.iter_mut().for_each(|sample| *sample /= peak);
    hit
}

/// A sine with falling pitch.
struct Kick {
    /// Final frequency in hertz.
    low: f32,
    /// Frequency above `low` at the start, in hertz.
    sweep: f32,
    /// Time constant of the pitch in seconds.
    fall_s: f32,
    /// Time constant of the level in seconds.
    decay_s: f32,
    /// Loudness of the click at the start.
    click: f32,
}

impl Kick {
    fn of(style: Style) -> Self {
        match style {
            Style::LofiHipHop | Style::BossaNova => {
                Self { low: 55.0, sweep: 90.0, fall_s: 0.025, decay_s: 0.1, click: 0.1 }
            }
            Style::House => {
                Self { low: 48.0, sweep: 190.0, fall_s: 0.03, decay_s: 0.14, click: 0.2 }
            }
            Style::Techno => {
                Self { low: 46.0, sweep: 260.0, fall_s: 0.022, decay_s: 0.15, click: 0.35 }
            }
            Style::Chiptune => {
                Self { low: 70.0, sweep: 400.0, fall_s: 0.03, decay_s: 0.06, click: 0.0 }
            }
            Style::DrumAndBass => {
                Self { low: 62.0, sweep: 180.0, fall_s: 0.018, decay_s: 0.08, click: 0.4 }
            }
            _ => Self { low: 54.0, sweep: 150.0, fall_s: 0.02, decay_s: 0.1, click: 0.3 },
        }
    }
}

fn kick(kick: &Kick, tune: f32, length: f32, dice: &mut Dice) -> Vec<f32> {
    let decay_s = kick.decay_s * length;
    let mut low_pass = Filter::low_pass(5_000.0);
    let mut phase = 0.0f32;
    times(decay_s * 5.0)
        .map(|time| {
            let frequency = tune * kick.low + kick.sweep * (-time / kick.fall_s).exp();
            phase += frequency / SAMPLE_RATE as f32;
            let body = (std::f32::consts::TAU * phase).sin() * (-time / decay_s).exp();
            let click = low_pass.next(dice.real(-1.0, 1.0)) * (-time / 0.003).exp();
            body + kick.click * click
        })
        .collect()
}

fn snare(pitch: f32, decay_s: f32, tone: f32, body: f32, dice: &mut Dice) -> Vec<f32> {
    let mut low_pass = Filter::low_pass(body);
    let mut high_pass = Filter::high_pass(700.0);
    let mut phase = 0.0f32;
    times(decay_s * 5.0)
        .map(|time| {
            phase += pitch * (1.0 + 0.6 * (-time / 0.01).exp()) / SAMPLE_RATE as f32;
            let drum = (std::f32::consts::TAU * phase).sin() * (-time / 0.06).exp();
            let wires = high_pass.next(low_pass.next(dice.real(-1.0, 1.0)));
            tone * drum + wires * (-time / decay_s).exp()
        })
        .collect()
}

fn rim(pitch: f32, dice: &mut Dice) -> Vec<f32> {
    let mut low_pass = Filter::low_pass(6_000.0);
    times(0.08)
        .map(|time| {
            let ring = (std::f32::consts::TAU * pitch * time).sin() * (-time / 0.012).exp();
            ring + 0.4 * low_pass.next(dice.real(-1.0, 1.0)) * (-time / 0.006).exp()
        })
        .collect()
}

/// Band-limited noise.
struct Noise {
    /// Lower limit in hertz.
    low: f32,
    /// Upper limit in hertz.
    high: f32,
    /// Time constant of the level in seconds.
    decay_s: f32,
    /// Seconds from silence to full level.
    attack_s: f32,
}

fn noise(noise: &Noise, dice: &mut Dice) -> Vec<f32> {
    let mut low_pass = [Filter::low_pass(noise.high); 2];
    let mut high_pass = Filter::high_pass(noise.low);
    times(noise.attack_s + noise.decay_s * 5.0)
        .map(|time| {
            let [first, second] = &mut low_pass;
            let band = high_pass.next(first.next(second.next(dice.real(-1.0, 1.0))));
            let rise = (time / noise.attack_s).min(1.0);
            band * rise * (-(time - noise.attack_s).max(0.0) / noise.decay_s).exp()
        })
        .collect()
}

/// Returns the times of a sound's samples, in seconds.
fn times(duration_s: f32) -> impl Iterator<Item = f32> {
    (0..(duration_s * SAMPLE_RATE as f32) as usize).map(|index| index as f32 / SAMPLE_RATE as f32)
}

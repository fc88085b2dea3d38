//! Synthetic music with known properties, for the listener's tests.

use std::f64::consts::TAU;

use super::RATE;

/// A rhythm pattern.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Beat {
    /// Click on every beat, soft hats on eighths.
    Clicks,
    /// Kick on every beat, hats on eighths.
    House,
    /// Kick on 1 and 3, snare on 2 and 4, hats on eighths.
    Rock,
    /// Kick on 1 and 3, snare on 2 and 4, hats on eighths, soft hats on sixteenths.
    Funk,
    /// Bass on 1, chords on 2 and 3.
    Waltz,
    /// Long notes on beats, soft plucks on eighths, no drums.
    Quiet,
    /// Kick and snare, hats on the last third of a beat.
    Swing,
}

impl Beat {
    pub(super) const ALL: [Self; 7] =
        [Self::Clicks, Self::House, Self::Rock, Self::Funk, Self::Waltz, Self::Quiet, Self::Swing];
}

/// A song: a progression of triads over a bass, with a rhythm pattern.
pub(super) struct TestSong {
    pub bpm: f64,
    pub beat: Beat,
    /// Pitch class of the tonic, C = 0.
    pub tonic: u8,
    pub minor: bool,
    /// Scale degrees (0 = tonic) of the triads, one per bar of four beats.
    pub degrees: &'static [usize],
    pub seconds: f64,
}

impl Default for TestSong {
    fn default() -> Self {
        let degrees = &[0, 3, 4, 0];
        Self { bpm: 100.0, beat: Beat::Rock, tonic: 0, minor: false, degrees, seconds: 11.0 }
    }
}

const MAJOR: [i32; 7] = [0, 2, 4, 5, 7, 9, 11];
const MINOR: [i32; 7] = [0, 2, 3, 5, 7, 8, 10];

impl TestSong {
    pub(super) fn render(&self) -> [Vec<f32>; 2] {
        let mut out = vec![0.0f32; (self.seconds * RATE) as usize];
        let beat_s = 60.0 / self.bpm;
        let beats = (self.seconds / beat_s) as usize + 1;
        for beat in 0..beats {
            let at = 0.1 + beat as f64 * beat_s;
            self.strike(&mut out, beat, at, beat_s);
            if self.beat != Beat::Clicks {
                self.harmony(&mut out, beat, at, beat_s);
            }
        }
        let right = out.clone();
        [out, right]
    }

    fn strike(&self, out: &mut [f32], beat: usize, at: f64, beat_s: f64) {
        let hats: &[(f64, f32)] = match self.beat {
            Beat::Clicks | Beat::House | Beat::Rock => &[(0.0, 0.05), (0.5, 0.05)],
            Beat::Funk => &[(0.0, 0.06), (0.25, 0.03), (0.5, 0.06), (0.75, 0.03)],
            Beat::Swing => &[(0.0, 0.05), (2.0 / 3.0, 0.05)],
            Beat::Waltz | Beat::Quiet => &[],
        };
        for (place, level) in hats {
            add_noise(out, at + place * beat_s, 0.03, *level, 0.95);
        }
        match self.beat {
            Beat::Clicks => add_tone(out, at, 0.05, 1_000.0, 0.5),
            Beat::House => add_kick(out, at),
            Beat::Rock | Beat::Funk | Beat::Swing if beat.is_multiple_of(2) => add_kick(out, at),
            Beat::Rock | Beat::Funk | Beat::Swing => {
                add_noise(out, at, 0.12, 0.3, 0.3);
                add_tone(out, at, 0.1, 190.0, 0.25);
            }
            Beat::Waltz | Beat::Quiet => {}
        }
    }

    fn harmony(&self, out: &mut [f32], beat: usize, at: f64, beat_s: f64) {
        let scale = if self.minor { MINOR } else { MAJOR };
        let bar = if self.beat == Beat::Waltz { 3 } else { 4 };
        let degree = self.degrees[beat / bar % self.degrees.len()];
        let note = |step: usize| {
            let step = degree + step;
            i32::from(self.tonic) + scale[step % 7] + 12 * (step / 7) as i32
        };
        let chord = |out: &mut [f32], at: f64, s: f64, level: f32| {
            for step in [0, 2, 4] {
                add_note(out, at, s, 60 + note(step) % 12, level);
            }
        };
        let bass = 36 + note(0) % 12;
        let first = beat.is_multiple_of(bar);
        match self.beat {
            Beat::Waltz if first => add_note(out, at, beat_s, bass, 0.25),
            Beat::Waltz => chord(out, at, 0.5 * beat_s, 0.08),
            Beat::Quiet => {
                add_note(out, at, beat_s, bass, 0.15);
                chord(out, at, beat_s, 0.06);
                add_note(out, at + 0.5 * beat_s, 0.3, 72 + note(2 * (beat % 3)) % 12, 0.03);
            }
            _ => {
                add_note(out, at, 0.9 * beat_s, bass, 0.15);
                if first {
                    chord(out, at, bar as f64 * beat_s, 0.06);
                }
            }
        }
    }
}

/// Returns the frequency of a MIDI note, A4 = 69 = 440 Hz.
pub(super) fn hz(note: i32) -> f64 {
    440.0 * 2f64.powf(f64::from(note - 69) / 12.0)
}

/// Adds a note with six harmonics.
pub(super) fn add_note(out: &mut [f32], at: f64, seconds: f64, note: i32, level: f32) {
    let hz = hz(note);
    add(out, at, seconds, |t| {
        // Of the six sines one is computed: `sin (h + 1) x = 2 cos x sin h x - sin (h - 1) x`.
        let (sin, cos) = (TAU * hz * t).sin_cos();
        let (mut before, mut harmonic, mut sum) = (0.0, sin, 0.0);
        for h in 1..=6 {
            sum += harmonic / f64::from(h);
            (before, harmonic) = (harmonic, 2.0 * cos * harmonic - before);
        }
        sum * fade(t, seconds) * f64::from(level)
    });
}

/// Adds a struck sine, which starts within 3 ms and fades over `seconds`.
pub(super) fn add_tone(out: &mut [f32], at: f64, seconds: f64, hz: f64, level: f32) {
    add(out, at, seconds, |t| (TAU * hz * t).sin() * fade(t, seconds) * f64::from(level));
}

fn add_kick(out: &mut [f32], at: f64) {
    add(out, at, 0.15, |t| {
        (TAU * (50.0 * t + 2.0 * (1.0 - (-40.0 * t).exp()))).sin() * fade(t, 0.15) * 0.6
    });
}

/// Adds a burst of noise; `bright`, `0..1`, removes low frequencies.
pub(super) fn add_noise(out: &mut [f32], at: f64, seconds: f64, level: f32, bright: f64) {
    let (mut state, mut last) = (0x2545_f491u32, 0.0);
    add(out, at, seconds, |t| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let white = f64::from(state) / f64::from(u32::MAX) * 2.0 - 1.0;
        let sample = white - bright * last;
        last = white;
        sample * fade(t, seconds) * f64::from(level)
    });
}

fn fade(t: f64, seconds: f64) -> f64 {
    (t / 0.003).min(1.0) * (-4.0 * t / seconds).exp() * ((seconds - t) / 0.01).clamp(0.0, 1.0)
}

fn add(out: &mut [f32], at: f64, seconds: f64, mut wave: impl FnMut(f64) -> f64) {
    let start = (at * RATE) as usize;
    for n in 0..(seconds * RATE) as usize {
        if let Some(sample) = out.get_mut(start + n) {
            *sample += wave(n as f64 / RATE) as f32;
        }
    }
}

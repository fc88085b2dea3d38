//! Synthesis of pitched notes.

use std::collections::BTreeMap;

use super::{
    BLOCK, SAMPLE_RATE, Stereo,
    table::{TABLE, Table, table},
    timbre::Timbre,
};

/// Bits of a 32-bit phase below the table index.
const FRACTION_BITS: u32 = 32 - TABLE.trailing_zeros();

/// Number of semitones that share one table.
const SHARED: u8 = 3;

/// A pitched note with its position in samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    /// First sample.
    pub(super) start: usize,
    /// Samples until the release.
    pub(super) held: usize,
    /// MIDI pitch.
    pub(super) pitch: u8,
    /// Loudness, 1 = full.
    pub(super) velocity: f32,
}

/// A timbre with a cache of its tables.
#[derive(Debug)]
pub(super) struct Voice {
    timbre: Timbre,
    /// -1 = left, 1 = right.
    pan: f32,
    tables: BTreeMap<u8, Table>,
}

impl Voice {
    pub(super) fn new(timbre: Timbre, pan: f32) -> Self {
        Self { timbre, pan, tables: BTreeMap::new() }
    }

    /// Adds a note to a stem; sound beyond the stem's end is dropped.
    pub(super) fn add(&mut self, stem: &mut Stereo, note: Placed) {
        let timbre = self.timbre;
        let length = stem[0].len();
        let release = (timbre.release_s * SAMPLE_RATE as f32) as usize;
        let end = (note.start + note.held + release).min(length);
        if note.start >= end {
            return;
        }
        let group = note.pitch / SHARED;
        let table = self.tables.entry(group).or_insert_with(|| {
            // The highest pitch of the group limits the harmonics.
            table(timbre.dark, timbre.bright, frequency_from_pitch(group * SHARED + SHARED - 1))
        });
        let mut oscillators = oscillators(&timbre, self.pan, frequency_from_pitch(note.pitch));
        let envelope = Envelope { timbre, held: note.held, release };
        let [left, right] = stem;
        let channels = left[note.start..end].chunks_mut(BLOCK);
        let blocks = channels.zip(right[note.start..end].chunks_mut(BLOCK));
        let gain = note.velocity / (timbre.voices as f32).sqrt();
        let mut before = envelope.at(0);
        for (index, (left, right)) in blocks.enumerate() {
            let time = index * BLOCK;
            let after = envelope.at(time + BLOCK);
            let bend = vibrato(timbre.vibrato_cents, time);
            let slope = (after.level - before.level) * gain / BLOCK as f32;
            // Soft notes are also darker.
            let bright = before.brightness * (0.35 + 0.65 * note.velocity);
            for oscillator in &mut oscillators {
                let step = (oscillator.step as f32 * bend) as u32;
                let mut phase = oscillator.phase;
                let mut level = before.level * gain;
                for (left, right) in left.iter_mut().zip(right.iter_mut()) {
                    let place = (phase >> FRACTION_BITS) as usize;
                    let fraction = (phase & ((1 << FRACTION_BITS) - 1)) as f32
                        * (1.0 / (1u32 << FRACTION_BITS) as f32);
                    let (one, two) = (table[place], table[place + 1]);
                    let dark = one[0] + fraction * (two[0] - one[0]);
                    let added = one[1] + fraction * (two[1] - one[1]);
                    let sample = (dark + bright * added) * level;
                    *left += sample * oscillator.left;
                    *right += sample * oscillator.right;
                    level += slope;
                    phase = phase.wrapping_add(step);
                }
                oscillator.phase = phase;
            }
            // A note that has decayed is not computed to its end.
            if timbre.sustain == 0.0 && after.level < 1e-4 && time > note.held / 2 {
                break;
            }
            before = after;
        }
    }
}

/// Returns the frequency of a MIDI pitch in hertz.
fn frequency_from_pitch(pitch: u8) -> f32 {
    440.0 * ((f32::from(pitch) - 69.0) / 12.0).exp2()
}

/// Returns the frequency factor at a time in samples: 5.2 Hz, growing over the first half second.
fn vibrato(cents: f32, time: usize) -> f32 {
    if cents == 0.0 {
        return 1.0;
    }
    let seconds = time as f32 / SAMPLE_RATE as f32;
    let depth = cents * (seconds * 2.0).min(1.0);
    1.0 + depth * 0.000_577_8 * (seconds * 5.2 * std::f32::consts::TAU).sin()
}

#[derive(Debug)]
struct Oscillator {
    /// Position in the period, in 1/2^32.
    phase: u32,
    /// Advance per sample, in 1/2^32 of the period.
    step: u32,
    left: f32,
    right: f32,
}

fn oscillators(timbre: &Timbre, pan: f32, frequency: f32) -> Vec<Oscillator> {
    let place = |index: usize| match timbre.voices {
        1 => 0.0,
        voices => 2.0 * index as f32 / (voices - 1) as f32 - 1.0,
    };
    (0..timbre.voices)
        .map(|index| {
            let place = place(index);
            let detuned = frequency * (place * timbre.detune_cents / 1200.0).exp2();
            let pan = (pan + place * timbre.width * 0.7).clamp(-1.0, 1.0);
            Oscillator {
                phase: 0,
                step: (f64::from(detuned) / f64::from(SAMPLE_RATE) * 4_294_967_296.0) as u32,
                left: ((1.0 - pan) / 2.0).sqrt(),
                right: ((1.0 + pan) / 2.0).sqrt(),
            }
        })
        .collect()
}

/// Level and brightness of a note over time.
#[derive(Debug, Clone, Copy)]
struct Envelope {
    timbre: Timbre,
    held: usize,
    release: usize,
}

#[derive(Debug, Clone, Copy)]
struct Moment {
    level: f32,
    brightness: f32,
}

impl Envelope {
    fn at(&self, time: usize) -> Moment {
        let seconds = time as f32 / SAMPLE_RATE as f32;
        let brightness = (-seconds / self.timbre.brightness_s).exp();
        let after = time.saturating_sub(self.held) as f32 / self.release.max(1) as f32;
        let level = self.pressed(time.min(self.held)) * (1.0 - after).max(0.0);
        Moment { level, brightness }
    }

    /// Returns the level before the release.
    fn pressed(&self, time: usize) -> f32 {
        let Timbre { attack_s, decay_s, sustain, .. } = self.timbre;
        let seconds = time as f32 / SAMPLE_RATE as f32;
        if seconds < attack_s {
            return seconds / attack_s;
        }
        sustain + (1.0 - sustain) * (-(seconds - attack_s) / decay_s).exp()
    }
}

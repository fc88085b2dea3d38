//! Timbres of the pitched instruments.

use super::table::Spectrum::{self, Falling, Listed};
use crate::composer::{dice::Dice, instrument::Instrument};

/// Sound parameters of a pitched instrument.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timbre {
    /// The wave after the attack.
    pub(super) dark: Spectrum,
    /// The wave at the start of a loud note.
    pub(super) bright: Spectrum,
    /// Time constant of the brightness in seconds; infinite = constant.
    pub(super) brightness_s: f32,
    /// Seconds from silence to full level.
    pub(super) attack_s: f32,
    /// Time constant of the decay to `sustain`, in seconds.
    pub(super) decay_s: f32,
    /// Level of a held note; 0 = it fades to silence.
    pub(super) sustain: f32,
    /// Seconds from the end of a note to silence.
    pub(super) release_s: f32,
    /// Oscillators per note.
    pub(super) voices: usize,
    /// Detuning of the outer oscillators, in cents.
    pub(super) detune_cents: f32,
    /// Depth of the vibrato in cents.
    pub(super) vibrato_cents: f32,
    /// Stereo width of the oscillators; 0 = all at one position.
    pub(super) width: f32,
    /// Gain into the distortion, 0 = clean.
    pub(super) drive: f32,
}

/// A dull struck or plucked string; the other timbres are variations of it.
const STRING: Timbre = Timbre {
    dark: Falling { slope: 1.8, even: 1.0, cutoff: 1_200.0 },
    bright: Falling { slope: 1.0, even: 1.0, cutoff: 3_500.0 },
    brightness_s: 0.15,
    attack_s: 0.003,
    decay_s: 0.8,
    sustain: 0.0,
    release_s: 0.12,
    voices: 1,
    detune_cents: 0.0,
    vibrato_cents: 0.0,
    width: 0.0,
    drive: 0.0,
};

const FOREVER: f32 = f32::INFINITY;

/// Returns the timbre of an instrument, varied a little by `dice`.
pub(super) fn timbre(instrument: Instrument, dice: &mut Dice) -> Timbre {
    let mut timbre = plain(instrument);
    let shade = dice.real(0.8, 1.25);
    timbre.dark = shaded(timbre.dark, shade);
    timbre.bright = shaded(timbre.bright, shade);
    timbre.brightness_s *= dice.real(0.8, 1.25);
    timbre.decay_s *= dice.real(0.8, 1.25);
    timbre.detune_cents *= dice.real(0.75, 1.3);
    timbre.vibrato_cents *= dice.real(0.7, 1.3);
    timbre
}

fn shaded(spectrum: Spectrum, shade: f32) -> Spectrum {
    match spectrum {
        Falling { slope, even, cutoff } => Falling { slope, even, cutoff: cutoff * shade },
        Listed(strengths) => Listed(strengths),
    }
}

fn plain(instrument: Instrument) -> Timbre {
    match instrument {
        Instrument::Piano => Timbre {
            dark: Falling { slope: 1.7, even: 0.9, cutoff: 1_300.0 },
            bright: Falling { slope: 1.0, even: 0.8, cutoff: 3_200.0 },
            brightness_s: 0.22,
            decay_s: 0.9,
            voices: 2,
            detune_cents: 1.2,
            width: 0.3,
            ..STRING
        },
        Instrument::ElectricPiano => Timbre {
            dark: Listed(&[1.0, 0.12, 0.03]),
            bright: Listed(&[1.0, 0.35, 0.1, 0.25, 0.05, 0.0, 0.22, 0.1]),
            brightness_s: 0.12,
            decay_s: 1.0,
            vibrato_cents: 4.0,
            ..STRING
        },
        Instrument::Guitar => Timbre {
            dark: Falling { slope: 1.5, even: 0.6, cutoff: 900.0 },
            bright: Falling { slope: 0.6, even: 0.7, cutoff: 4_200.0 },
            brightness_s: 0.07,
            decay_s: 0.45,
            ..STRING
        },
        Instrument::ElectricGuitar => Timbre {
            dark: Falling { slope: 1.0, even: 1.0, cutoff: 1_200.0 },
            bright: Falling { slope: 0.8, even: 1.0, cutoff: 2_500.0 },
            brightness_s: 0.15,
            decay_s: 0.8,
            sustain: 0.6,
            release_s: 0.06,
            voices: 2,
            detune_cents: 4.0,
            vibrato_cents: 3.0,
            drive: 2.0,
            ..STRING
        },
        Instrument::Pluck => Timbre {
            dark: Falling { slope: 1.6, even: 0.4, cutoff: 900.0 },
            bright: Falling { slope: 0.7, even: 0.8, cutoff: 6_000.0 },
            brightness_s: 0.05,
            decay_s: 0.22,
            release_s: 0.2,
            voices: 2,
            detune_cents: 6.0,
            width: 0.6,
            ..STRING
        },
        Instrument::Bell => Timbre {
            dark: Listed(&[1.0, 0.0, 0.0, 0.15]),
            bright: Listed(&[1.0, 0.1, 0.0, 0.6, 0.0, 0.2]),
            brightness_s: 0.18,
            attack_s: 0.002,
            decay_s: 0.7,
            release_s: 0.5,
            ..STRING
        },
        Instrument::Organ => Timbre {
            dark: Listed(&[0.9, 0.8, 0.5, 0.5, 0.0, 0.25, 0.0, 0.3]),
            bright: Listed(&[0.9, 0.9, 0.7, 0.6, 0.0, 0.4, 0.0, 0.5]),
            brightness_s: 0.04,
            attack_s: 0.005,
            decay_s: FOREVER,
            sustain: 1.0,
            release_s: 0.04,
            vibrato_cents: 5.0,
            ..STRING
        },
        Instrument::Accordion => Timbre {
            dark: Falling { slope: 0.9, even: 0.8, cutoff: 2_600.0 },
            bright: Falling { slope: 0.8, even: 0.8, cutoff: 3_500.0 },
            brightness_s: FOREVER,
            attack_s: 0.025,
            decay_s: 0.2,
            sustain: 0.85,
            release_s: 0.06,
            voices: 2,
            detune_cents: 9.0,
            width: 0.4,
            ..STRING
        },
        Instrument::Strings => Timbre {
            dark: Falling { slope: 1.1, even: 1.0, cutoff: 2_200.0 },
            bright: Falling { slope: 1.0, even: 1.0, cutoff: 3_600.0 },
            brightness_s: FOREVER,
            attack_s: 0.07,
            decay_s: FOREVER,
            sustain: 1.0,
            release_s: 0.2,
            voices: 3,
            detune_cents: 8.0,
            vibrato_cents: 6.0,
            width: 0.5,
            ..STRING
        },
        Instrument::Pad => Timbre {
            dark: Falling { slope: 1.4, even: 0.8, cutoff: 900.0 },
            bright: Falling { slope: 1.2, even: 1.0, cutoff: 1_800.0 },
            brightness_s: 1.5,
            attack_s: 0.06,
            decay_s: 0.4,
            sustain: 0.8,
            release_s: 0.4,
            voices: 3,
            detune_cents: 10.0,
            width: 0.5,
            ..STRING
        },
        Instrument::Flute => Timbre {
            dark: Listed(&[1.0, 0.22, 0.08, 0.02]),
            bright: Listed(&[1.0, 0.45, 0.2, 0.08, 0.03]),
            brightness_s: 0.2,
            attack_s: 0.03,
            decay_s: 0.15,
            sustain: 0.85,
            release_s: 0.08,
            vibrato_cents: 14.0,
            ..STRING
        },
        Instrument::Lead => Timbre {
            dark: Falling { slope: 1.0, even: 1.0, cutoff: 2_500.0 },
            bright: Falling { slope: 0.9, even: 1.0, cutoff: 6_500.0 },
            brightness_s: 0.18,
            attack_s: 0.006,
            decay_s: 0.3,
            sustain: 0.7,
            release_s: 0.08,
            voices: 3,
            detune_cents: 12.0,
            vibrato_cents: 6.0,
            width: 0.6,
            ..STRING
        },
        Instrument::Square => Timbre {
            dark: Falling { slope: 1.25, even: 0.0, cutoff: 4_000.0 },
            bright: Falling { slope: 1.25, even: 0.0, cutoff: 4_000.0 },
            attack_s: 0.002,
            decay_s: 0.25,
            sustain: 0.55,
            release_s: 0.02,
            vibrato_cents: 5.0,
            ..STRING
        },
        Instrument::SynthBass => Timbre {
            dark: Falling { slope: 1.6, even: 1.0, cutoff: 300.0 },
            bright: Falling { slope: 1.2, even: 1.0, cutoff: 1_500.0 },
            brightness_s: 0.08,
            decay_s: 0.35,
            sustain: 0.5,
            release_s: 0.03,
            ..STRING
        },
        Instrument::SubBass => Timbre {
            dark: Listed(&[1.0, 0.25, 0.08]),
            bright: Listed(&[1.0, 0.5, 0.25, 0.12, 0.06]),
            brightness_s: 0.1,
            attack_s: 0.006,
            decay_s: 0.6,
            sustain: 0.6,
            release_s: 0.06,
            ..STRING
        },
        // Drums do not use this; all other instruments get a bass string.
        _ => Timbre {
            dark: Falling { slope: 1.5, even: 0.9, cutoff: 400.0 },
            bright: Falling { slope: 0.9, even: 1.0, cutoff: 1_600.0 },
            brightness_s: 0.1,
            decay_s: 0.6,
            release_s: 0.06,
            ..STRING
        },
    }
}

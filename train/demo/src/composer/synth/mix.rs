//! Stems and their mix.

use super::{
    BLOCK, SAMPLE_RATE, Stereo,
    drum::hit,
    filter::Filter,
    timbre::timbre,
    voice::{Placed, Voice},
};
use crate::composer::{
    Band, Piece, Stem,
    dice::{Dice, Stream},
    instrument::Instrument,
    recipe::{Part, Role, recipe},
    score::{Note, sample_from_tick},
};

/// Peak of the mix.
const PEAK: f32 = 0.8;

/// Length of the fade at the end, in seconds.
const FADE_S: f32 = 0.15;

/// Level of a pitched part of loudness 1 while it sounds: RMS of one channel.
const PITCHED_LEVEL: f32 = 0.12;

/// Cutoff of the tape noise, in hertz.
const HISS_HZ: f32 = 3_000.0;

/// Gain that gives low-passed noise in `-1..1` an RMS of 1: `sqrt(3 * 24000 / (1.11 * 3000))`.
const HISS_GAIN: f32 = 4.65;

/// Renders the sound of each part that plays, before the mix is scaled.
pub(in crate::composer) fn stems(piece: &Piece) -> Vec<Stem> {
    let recipe = recipe(piece.style);
    let mut dice = Dice::new(piece.seed, Stream::Timbre);
    let mut stems = Vec::new();
    for (index, part) in recipe.parts.iter().enumerate() {
        // Drawn for absent parts too, so that the seeds of other parts do not change.
        let seed = u64::from(dice.between(0, u32::MAX));
        let notes: Vec<Note> =
            piece.notes.iter().filter(|note| note.part == index).copied().collect();
        let Some(instrument) = notes.first().map(|note| note.instrument) else { continue };
        let seed = match piece.band {
            Band::Varied => seed,
            Band::Same => instrument as u64,
        };
        let mut own = Dice::new(seed, Stream::Timbre);
        let mut sound = [vec![0.0; piece.samples()], vec![0.0; piece.samples()]];
        if part.role == Role::Drum {
            add_drum(piece, part, instrument, &notes, &mut own, &mut sound);
        } else {
            add_pitched(piece, part, instrument, &notes, &mut own, &mut sound);
        }
        if recipe.pumping > 0.0 && !matches!(part.role, Role::Drum | Role::Melody(_)) {
            pump(piece, recipe.pumping, &mut sound);
        }
        stems.push(Stem { instrument, sound });
    }
    stems
}

fn add_drum(
    piece: &Piece,
    part: &Part,
    instrument: Instrument,
    notes: &[Note],
    dice: &mut Dice,
    sound: &mut Stereo,
) {
    let pan = match instrument {
        Instrument::Kick | Instrument::Snare => 0.0,
        _ => dice.real(-0.35, 0.35),
    };
    let gains = [part.level * (1.0 - pan) * 0.5, part.level * (1.0 + pan) * 0.5];
    let hit = hit(instrument, piece.style, dice);
    for note in notes {
        let start = start(piece, note.start);
        for (channel, gain) in sound.iter_mut().zip(gains) {
            let channel = channel.get_mut(start..).unwrap_or_default();
            for (sample, value) in channel.iter_mut().zip(&hit) {
                *sample += gain * note.velocity * value;
            }
        }
    }
}

fn add_pitched(
    piece: &Piece,
    part: &Part,
    instrument: Instrument,
    notes: &[Note],
    dice: &mut Dice,
    sound: &mut Stereo,
) {
    // The bass stays in the centre, where it is strongest.
    let pan = if part.role == Role::Bass { 0.0 } else { dice.real(-0.4, 0.4) };
    let timbre = timbre(instrument, dice);
    let mut voice = Voice::new(timbre, pan);
    for note in notes {
        let (start, end) = (start(piece, note.start), start(piece, note.start + note.length));
        let placed =
            Placed { start, held: end - start, pitch: note.pitch, velocity: note.velocity };
        voice.add(sound, placed);
    }
    if timbre.drive > 0.0 {
        distort(timbre.drive, sound);
    }
    let level = level_while_sounding(sound);
    let gain = part.level * PITCHED_LEVEL / level.max(1e-9);
    sound.iter_mut().flatten().for_each(|sample| *sample *= gain);
}

/// Returns the first sample of a note at a tick.
fn start(piece: &Piece, tick: u32) -> usize {
    let grid = piece.band.grid();
    (sample_from_tick(tick, piece.bpm) + grid / 2) / grid * grid
}

/// Overdrive: `x / (1 + |x|)` after a gain relative to the stem's level, then a low-pass as
/// speaker.
fn distort(drive: f32, sound: &mut Stereo) {
    let gain = drive / level_while_sounding(sound).max(1e-9);
    for channel in sound {
        let mut speaker = Filter::low_pass(4_500.0);
        for sample in channel {
            let driven = *sample * gain;
            *sample = speaker.next(driven / (1.0 + driven.abs()));
        }
    }
}

/// Returns the RMS of one channel over the blocks in which a stem sounds.
fn level_while_sounding(sound: &Stereo) -> f32 {
    let [left, right] = sound;
    let powers: Vec<f32> = left
        .chunks(1024)
        .zip(right.chunks(1024))
        .map(|(left, right)| {
            let sum: f32 = left.iter().chain(right).map(|sample| sample * sample).sum();
            sum / (2 * left.len()) as f32
        })
        .collect();
    // Blocks 20 dB below the loudest one count as rests.
    let loudest = powers.iter().fold(0.0f32, |loudest, &power| loudest.max(power));
    let sounding: Vec<f32> = powers.into_iter().filter(|&power| power > 0.01 * loudest).collect();
    (sounding.iter().sum::<f32>() / sounding.len().max(1) as f32).sqrt()
}

/// Lowers the level on each beat and restores it within two thirds of the beat (sidechain pumping).
fn pump(piece: &Piece, depth: f32, sound: &mut Stereo) {
    let beat = f64::from(SAMPLE_RATE) * 60.0 / f64::from(piece.bpm);
    for channel in sound {
        for (index, block) in channel.chunks_mut(BLOCK).enumerate() {
            let beats = (index * BLOCK) as f64 / beat;
            let phase = (beats - beats.floor()) as f32;
            // The level falls over the first 5 %, so that there is no click.
            let dip = (phase / 0.05).min(1.0) * (1.0 - phase / 0.66).max(0.0);
            block.iter_mut().for_each(|sample| *sample *= 1.0 - depth * dip);
        }
    }
}

/// Adds tape noise, so that soft sounds do not end in digital silence.
fn hiss(piece: &Piece, sound: &mut Stereo) {
    let level = recipe(piece.style).hiss * PITCHED_LEVEL;
    if level == 0.0 {
        return;
    }
    let mut dice = Dice::new(piece.seed, Stream::Hiss);
    for channel in sound {
        let mut low_pass = Filter::low_pass(HISS_HZ);
        for sample in channel {
            *sample += HISS_GAIN * level * low_pass.next(dice.real(-1.0, 1.0));
        }
    }
}

/// Mixes the stems with tape noise, scales the sum to [`PEAK`] and fades its end.
pub(in crate::composer) fn mix(piece: &Piece, stems: &[Stem]) -> Stereo {
    let samples = piece.samples();
    let mut sum = [vec![0.0f32; samples], vec![0.0f32; samples]];
    hiss(piece, &mut sum);
    for stem in stems {
        for (total, channel) in sum.iter_mut().zip(&stem.sound) {
            for (total, sample) in total.iter_mut().zip(channel) {
                *total += sample;
            }
        }
    }
    let peak = sum.iter().flatten().fold(0.0f32, |peak, sample| peak.max(sample.abs()));
    let gain = PEAK / peak.max(1e-9);
    let fade = ((FADE_S * SAMPLE_RATE as f32) as usize).min(samples);
    for channel in &mut sum {
        channel.iter_mut().for_each(|sample| *sample *= gain);
        for (left, sample) in channel.iter_mut().rev().take(fade).enumerate() {
            *sample *= left as f32 / fade as f32;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::composer::{Style, Wish};

    #[test]
    fn the_tape_hisses_as_loud_as_the_recipe_says_and_elsewhere_not_at_all() {
        let level = |style| {
            let wish = Wish { style: Some(style), duration_s: Some(4.0), ..Wish::default() };
            let piece = Piece::compose(1, &wish);
            let mut sound = [vec![0.0; piece.samples()], vec![0.0; piece.samples()]];
            hiss(&piece, &mut sound);
            let power: f32 = sound.iter().flatten().map(|sample| sample * sample).sum();
            (power / (2 * piece.samples()) as f32).sqrt()
        };
        let said = recipe(Style::Ambient).hiss * PITCHED_LEVEL;
        assert!((level(Style::Ambient) / said - 1.0).abs() < 0.03);
        assert_eq!(level(Style::House), 0.0);
    }
}

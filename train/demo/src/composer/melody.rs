//! Melodies: a motif, its answer, the motif again, and a close on the tonic.

use super::{
    dice::Dice,
    harmony::{Progression, TONIC},
    meter::Meter,
    score::TICKS_PER_STEP,
};

/// A note of a melody, relative to its bar and its key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tone {
    /// Start in ticks from the start of the bar.
    pub(super) start: u32,
    /// Length in ticks.
    pub(super) length: u32,
    /// Scale step, 0 = the tonic in the middle of the register.
    pub(super) step: i32,
}

/// Four bars of melody.
pub(super) type Theme = [Vec<Tone>; 4];

/// Density of a melody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Long notes.
    Calm,
    /// Mostly quarters and eighths.
    Walking,
    /// Mostly eighths.
    Lively,
}

/// Rhythms of one bar in sixteenths: `n` is a note, `-` holds it, `.` is a rest.
const CALM: [&str; 5] = [
    "n-------n---n---",
    "n---n---n-------",
    "n-------n-------",
    "n---n---n---n---",
    "n-----n-n---n---",
];
const WALKING: [&str; 6] = [
    "n---n-n-n---n---",
    "n-n-n---n-n-n---",
    "n---n---n-n-n-n-",
    "n-n-n---n-------",
    "n---n-n-n-n-n---",
    "n---n---n---n-n-",
];
const LIVELY: [&str; 6] = [
    "n-n-n-n-n---n-n-",
    "n-n-n---n-n-n-n-",
    "n-nnn-n-n-n-n---",
    "n---n-n-n-n-n-n-",
    "n-n-n-nnn---n-n-",
    "n-n-n-n-n-n-n-n-",
];
const CLOSE: [&str; 3] = ["n-----------....", "n---n-------....", "n---n---n-------"];

/// Range of a melody in scale steps, about an octave and a half.
const LOWEST_STEP: i32 = -3;
const HIGHEST_STEP: i32 = 7;

/// Composes a theme over a progression.
pub(super) fn theme(progression: &Progression, meter: Meter, pace: Pace, dice: &mut Dice) -> Theme {
    let rhythms: &[&str] = match pace {
        Pace::Calm => &CALM,
        Pace::Walking => &WALKING,
        Pace::Lively => &LIVELY,
    };
    let motif = Motif::new(dice.pick(rhythms), meter, dice);
    let answer = Motif::new(dice.pick(rhythms), meter, dice);
    let close = Motif::new(dice.pick(&CLOSE), meter, dice);
    // A motif starts on the tonic or the fifth, so that the key is clear at once.
    let first = dice.pick(&[0, 0, 0, 4]);
    let second = dice.pick(&[0, 0, 2, 4]);
    let mut bars = [
        motif.over(progression, 0, first),
        answer.over(progression, 1, second),
        motif.over(progression, 2, first),
        close.over(progression, 3, second),
    ];
    if let Some(last) = bars[3].last_mut() {
        last.step = if progression[3] == TONIC || progression[3].has(0) { 0 } else { 4 };
    }
    bars
}

/// Returns the last bar of a piece: the tonic, held.
pub(super) fn closing_bar(meter: Meter) -> Vec<Tone> {
    vec![Tone { start: 0, length: meter.beats() * 4 * TICKS_PER_STEP, step: 0 }]
}

/// A rhythm and its contour.
#[derive(Debug)]
struct Motif {
    /// Start and length of each note in ticks.
    rhythm: Vec<(u32, u32)>,
    /// Steps from each note to the next.
    contour: Vec<i32>,
}

impl Motif {
    fn new(rhythm: &str, meter: Meter, dice: &mut Dice) -> Self {
        let steps = meter.beats() * 4;
        let mut notes: Vec<(u32, u32)> = Vec::new();
        for (index, sign) in (0..steps).zip(rhythm.chars()) {
            match (sign, notes.last_mut()) {
                ('n', _) => notes.push((index * TICKS_PER_STEP, TICKS_PER_STEP)),
                ('-', Some(last)) => last.1 += TICKS_PER_STEP,
                _ => {}
            }
        }
        let contour =
            notes.iter().map(|_| dice.pick(&[-2, -1, -1, -1, 0, 1, 1, 1, 2, 3])).collect();
        Self { rhythm: notes, contour }
    }

    /// Places the motif over the chord of one bar: beats use chord tones, other notes may be
    /// passing.
    fn over(&self, progression: &Progression, bar: usize, first: i32) -> Vec<Tone> {
        let chord = progression[bar];
        let mut step = first;
        let mut tones = Vec::with_capacity(self.rhythm.len());
        for (&(start, length), &change) in self.rhythm.iter().zip(&self.contour) {
            let on_beat = start % (4 * TICKS_PER_STEP) == 0;
            let sung = if on_beat { nearest(step, |step| chord.has(step)) } else { step };
            tones.push(Tone { start, length, step: sung });
            // At the border of the range the contour is reversed.
            let next = sung + change;
            step = if (LOWEST_STEP..=HIGHEST_STEP).contains(&next) { next } else { sung - change };
        }
        tones
    }
}

/// Returns the step in the range nearest to `step` that is `fitting`; the lower one of two.
fn nearest(step: i32, fitting: impl Fn(i32) -> bool) -> i32 {
    (0..7)
        .flat_map(|distance| [step - distance, step + distance])
        .find(|candidate| (LOWEST_STEP..=HIGHEST_STEP).contains(candidate) && fitting(*candidate))
        .unwrap_or(step)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{dice::Stream, key::Mode, recipe::recipe, style::Style},
        *,
    };

    #[test]
    fn beats_carry_tones_of_the_chord_and_the_motif_returns() {
        for seed in 0..50 {
            let mut dice = Dice::new(seed, Stream::Melody);
            let chords = recipe(Style::Chiptune).harmony.pick(Mode::Minor, &mut dice);
            let theme = theme(&chords, Meter::Four, Pace::Lively, &mut dice);
            for (bar, chord) in theme.iter().zip(&chords).take(3) {
                for tone in bar.iter().filter(|tone| tone.start % 24 == 0) {
                    assert!(chord.has(tone.step));
                    assert!((LOWEST_STEP..=HIGHEST_STEP).contains(&tone.step));
                }
            }
            let starts = |bar: usize| theme[bar].iter().map(|tone| tone.start).collect::<Vec<_>>();
            assert_eq!(starts(0), starts(2));
        }
    }
}

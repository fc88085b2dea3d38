//! Key: tonic and mode.
//!
//! Each of the 24 keys gets a score, the weighted sum of
//!
//! 1. the correlation of the song's chroma with the key's profile (Krumhansl & Kessler 1982; the
//!    profile is from Albrecht & Shanahan 2013, "The use of large corpora to train a new type of
//!    key-finding algorithm", with overtones added as in Gomez 2006),
//! 2. the correlation of the bass chroma with the usual frequency of each degree in a bass,
//! 3. the similarity of the song's beginning and end to the tonic's triad over its root.
//!
//! A major key and its relative minor share all notes, so the profile alone barely separates them.
//! Items 2 and 3 do, because music begins, ends and rests on its tonic.

use super::{
    Sound,
    chroma::{Chroma, Chromagram, Moment, add},
};

/// Note frequencies in major and minor (Albrecht & Shanahan 2013), from the tonic upwards.
const PROFILES: [Chroma; 2] = [
    [0.238, 0.006, 0.111, 0.006, 0.137, 0.094, 0.016, 0.214, 0.009, 0.080, 0.008, 0.081],
    [0.220, 0.006, 0.104, 0.123, 0.019, 0.103, 0.012, 0.214, 0.062, 0.022, 0.061, 0.052],
];

/// Frequencies of the degrees in a bass, in major and minor: the roots of the usual chords.
const BASS_PROFILES: [Chroma; 2] = [
    [0.36, 0.0, 0.07, 0.0, 0.06, 0.17, 0.0, 0.21, 0.0, 0.10, 0.0, 0.03],
    [0.36, 0.0, 0.03, 0.08, 0.0, 0.15, 0.0, 0.17, 0.11, 0.0, 0.10, 0.0],
];

/// Triads over the tonic in major and minor.
const TRIADS: [[usize; 3]; 2] = [[0, 4, 7], [0, 3, 7]];

/// Semitones from a note to its overtones 3 and 5, and their weights.
const OVERTONES: [(usize, f64); 2] = [(7, 0.25), (4, 0.15)];

/// Weights of the terms of a score: profile, bass, beginning, end.
const WEIGHTS: [f64; 4] = [1.0, 0.3, 0.3, 0.2];

/// Length of the beginning and of the end in seconds, about a bar.
const EDGE_S: f64 = 1.8;

/// Loudness above which a moment counts, relative to the loudest moment.
const SOUNDING: f64 = 0.15;

/// The key of a song.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectedKey {
    /// Pitch class of the tonic, C = 0.
    pub tonic: u8,
    /// True if the key is minor.
    pub minor: bool,
    /// Score of the key: about 1.5 if the key is clear, 0 for silence.
    pub strength: f64,
    /// The second best key: pitch class of its tonic, and true if it is minor.
    pub runner_up: (u8, bool),
    /// Difference of the scores of the best and the second best key.
    pub lead: f64,
}

/// Measures the key of a song.
pub fn key<'a>(sound: impl Into<Sound<'a>>) -> DetectedKey {
    let heard = SongChroma::new(&Chromagram::new(&sound.into().mid()));
    let mut ranked: Vec<(f64, usize, usize)> = (0..24)
        .map(|key| (key % 12, key / 12))
        .map(|(tonic, mode)| (heard.score(tonic, mode), tonic, mode))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (first, second) = (ranked[0], ranked[1]);
    DetectedKey {
        tonic: first.1 as u8,
        minor: first.2 == 1,
        strength: first.0,
        runner_up: (second.1 as u8, second.2 == 1),
        lead: first.0 - second.0,
    }
}

/// Chroma of a song, as input of the score.
struct SongChroma {
    all: Chroma,
    bass: Chroma,
    beginning: Moment,
    end: Moment,
}

impl SongChroma {
    fn new(chromagram: &Chromagram) -> Self {
        let level = |m: &Moment| m.bass.iter().chain(&m.upper).sum::<f64>();
        let loudest = chromagram.moments.iter().map(level).fold(0.0, f64::max);
        let sounds = |m: &&Moment| level(m) > SOUNDING * loudest;
        let sounding: Vec<&Moment> = chromagram.moments.iter().filter(sounds).collect();
        let edge = ((EDGE_S * chromagram.rate) as usize).min(sounding.len());
        let whole = sum(&sounding);
        let mut all = whole.upper;
        add(&mut all, &whole.bass, 1.0);
        Self {
            all,
            bass: whole.bass,
            beginning: sum(&sounding[..edge]),
            end: sum(&sounding[sounding.len() - edge..]),
        }
    }

    fn score(&self, tonic: usize, mode: usize) -> f64 {
        let parts = [
            correlation(&turned(&self.all, tonic), &with_overtones(&PROFILES[mode])),
            correlation(&turned(&self.bass, tonic), &BASS_PROFILES[mode]),
            triad(&self.beginning, tonic, mode),
            triad(&self.end, tonic, mode),
        ];
        parts.iter().zip(&WEIGHTS).map(|(part, weight)| part * weight).sum()
    }
}

fn sum(moments: &[&Moment]) -> Moment {
    let mut sum = Moment::default();
    for moment in moments {
        add(&mut sum.bass, &moment.bass, 1.0);
        add(&mut sum.upper, &moment.upper, 1.0);
    }
    sum
}

/// Returns the similarity of a part to the triad of a tonic over its root.
///
/// This is the mean of two correlations, of the upper notes and of the bass.
fn triad(part: &Moment, tonic: usize, mode: usize) -> f64 {
    let (mut notes, mut root) = ([0.0; 12], [0.0; 12]);
    TRIADS[mode].iter().for_each(|&degree| notes[degree] = 1.0);
    root[0] = 1.0;
    let upper = correlation(&turned(&part.upper, tonic), &with_overtones(&notes));
    0.5 * upper + 0.5 * correlation(&turned(&part.bass, tonic), &root)
}

/// Rotates the chroma so that the tonic is first.
fn turned(chroma: &Chroma, tonic: usize) -> Chroma {
    let mut turned = *chroma;
    turned.rotate_left(tonic);
    turned
}

/// Returns the expected chroma of notes with overtones.
fn with_overtones(notes: &Chroma) -> Chroma {
    let mut measured = *notes;
    for (semitones, weight) in OVERTONES {
        let mut above = *notes;
        above.rotate_right(semitones);
        add(&mut measured, &above, weight);
    }
    measured
}

/// Returns Pearson's correlation, or 0 if one side is constant.
fn correlation(a: &Chroma, b: &Chroma) -> f64 {
    let mean = |x: &Chroma| x.iter().sum::<f64>() / 12.0;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum = |f: &dyn Fn(f64, f64) -> f64| {
        a.iter().zip(b).map(|(x, y)| f(x - mean_a, y - mean_b)).sum::<f64>()
    };
    let norm = (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
    if norm > 0.0 { sum(&|x, y| x * y) / norm } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;
    use crate::listener::synth::{self, Beat, TestSong};

    /// Uses progressions such as I IV V I in all major and minor keys, with drums.
    #[test]
    fn progressions_give_their_key_in_all_24_keys() {
        let progressions: [&[usize]; 3] = [&[0, 3, 4, 0], &[0, 5, 3, 4], &[0, 4, 5, 3]];
        let all = 24 * progressions.len();
        let wrong = |song: usize| {
            let (degrees, index) = (progressions[song / 24], (song % 24) as u8);
            let (tonic, minor) = (index % 12, index >= 12);
            let beat = Beat::ALL[1 + (song / 24 + usize::from(index)) % 6];
            let bpm = 88.0 + 4.0 * f64::from(index);
            let song = TestSong { bpm, beat, tonic, minor, degrees, ..TestSong::default() };
            let heard = key(&song.render());
            let is_wrong = (heard.tonic, heard.minor) != (tonic, minor);
            is_wrong.then(|| format!("{tonic} {minor} {beat:?} {degrees:?}: {heard:?}"))
        };
        let wrong: Vec<String> = (0..all).into_par_iter().filter_map(wrong).collect();
        assert!(wrong.len() * 40 <= all, "{} of {all}: {wrong:#?}", wrong.len());
    }

    #[test]
    fn scales_that_rest_on_the_tonic_give_their_key() {
        for (tonic, minor, steps) in [
            (0, false, [0, 2, 4, 5, 7, 9, 11]),
            (9, true, [0, 2, 3, 5, 7, 8, 10]),
            (6, true, [0, 2, 3, 5, 7, 8, 10]),
            (3, false, [0, 2, 4, 5, 7, 9, 11]),
        ] {
            let mut samples = vec![0.0; 10 * 48_000];
            let up_and_down = steps.iter().chain([&12]).chain(steps.iter().rev());
            for (place, step) in up_and_down.enumerate() {
                let long = if matches!(step, 0 | 12) { 0.9 } else { 0.5 };
                let at = 0.6 * place as f64;
                synth::add_note(&mut samples, at, long, 60 + i32::from(tonic) + step, 0.2);
            }
            let heard = key(&[samples.clone(), samples]);
            assert_eq!((heard.tonic, heard.minor), (tonic, minor), "{heard:?}");
        }
    }
}

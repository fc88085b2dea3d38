//! Keys: a tonic and a mode, 24 in all.
//!
//! Each pitch class has one spelling, with sharps only: C, C#, D, D#, E, F, F#, G, G#, A, A#, B.

use std::fmt;

use serde::{Serialize, Serializer};

/// Names of the pitch classes, C = 0.
const NOTES: [&str; 12] = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"];

/// Major or natural minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The major scale.
    Major,
    /// The natural minor scale.
    Minor,
}

/// A key, displayed and serialised as `C major` or `F# minor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    tonic: u8,
    mode: Mode,
}

impl Key {
    /// Returns the key on a pitch class; `tonic` is taken modulo 12, C = 0.
    pub fn new(tonic: u8, mode: Mode) -> Self {
        Self { tonic: tonic % 12, mode }
    }

    /// Returns all 24 keys: the majors from C to B, then the minors.
    pub fn all() -> impl Iterator<Item = Self> {
        [Mode::Major, Mode::Minor]
            .into_iter()
            .flat_map(|mode| (0..12).map(move |tonic| Self { tonic, mode }))
    }

    /// Returns the pitch class of the tonic, C = 0.
    pub fn tonic(self) -> u8 {
        self.tonic
    }

    /// Returns major or minor.
    pub fn mode(self) -> Mode {
        self.mode
    }

    /// Returns the semitones of the seven scale steps above the tonic.
    pub fn scale(self) -> [u8; 7] {
        match self.mode {
            Mode::Major => [0, 2, 4, 5, 7, 9, 11],
            Mode::Minor => [0, 2, 3, 5, 7, 8, 10],
        }
    }

    /// True if a MIDI pitch belongs to the scale.
    pub fn contains(self, pitch: u8) -> bool {
        self.scale().contains(&((pitch % 12 + 12 - self.tonic) % 12))
    }

    /// Returns the pitch class of a scale step; step 0 is the tonic, steps beyond 0..7 wrap around.
    pub(super) fn pitch_class(self, step: i32) -> u8 {
        (self.tonic + self.scale()[step.rem_euclid(7) as usize]) % 12
    }

    /// Returns the MIDI pitch of a scale step, counted from the tonic at or above `lowest`.
    pub(super) fn pitch(self, step: i32, lowest: u8) -> u8 {
        let tonic = raised(self.tonic, lowest);
        let octaves = step.div_euclid(7);
        let semitones = i32::from(self.scale()[step.rem_euclid(7) as usize]);
        (i32::from(tonic) + 12 * octaves + semitones).clamp(0, 127) as u8
    }
}

/// Returns the lowest MIDI pitch of a pitch class that is at least `lowest`.
pub(super) fn raised(pitch_class: u8, lowest: u8) -> u8 {
    lowest + (pitch_class + 12 - lowest % 12) % 12
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            Mode::Major => "major",
            Mode::Minor => "minor",
        };
        write!(formatter, "{} {mode}", NOTES[usize::from(self.tonic)])
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spelt_with_sharps() {
        let names: Vec<String> = Key::all().map(|key| key.to_string()).collect();
        assert_eq!(names.len(), 24);
        assert_eq!(names[0], "C major");
        assert_eq!(names[10], "A# major");
        assert_eq!(names[18], "F# minor");
    }

    #[test]
    fn relative_keys_share_their_notes() {
        let (major, minor) = (Key::new(0, Mode::Major), Key::new(9, Mode::Minor));
        assert!((0..128).all(|pitch| major.contains(pitch) == minor.contains(pitch)));
        assert!(major.contains(60) && !major.contains(61));
    }

    #[test]
    fn steps_become_pitches() {
        let key = Key::new(9, Mode::Minor);
        assert_eq!(key.pitch(0, 60), 69);
        assert_eq!(key.pitch(2, 60), 72);
        assert_eq!(key.pitch(-1, 60), 67);
        assert_eq!(key.pitch(7, 60), 81);
    }
}

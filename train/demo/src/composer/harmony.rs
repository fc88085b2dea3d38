//! Chords, and progressions of four bars.

use super::{
    dice::Dice,
    key::{Key, Mode, raised},
};

/// A chord on a scale step, 0 = tonic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chord {
    /// Root, in steps above the tonic.
    pub(super) root: i32,
}

/// Four chords, one per bar.
pub(super) type Progression = [Chord; 4];

/// The tonic chord.
pub(super) const TONIC: Chord = Chord { root: 0 };

/// The progressions of a style: the root of each of four bars, 1 = tonic.
///
/// All begin on the tonic. In minor keys they avoid emphasis on the relative major (steps 3 and 7),
/// which would sound like its key. Two styles never share a progression of one mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Harmony {
    /// Progressions in major keys.
    pub(super) major: &'static [[i32; 4]],
    /// Progressions in minor keys.
    pub(super) minor: &'static [[i32; 4]],
}

impl Harmony {
    /// Returns the progressions of a mode.
    pub(super) fn of(&self, mode: Mode) -> &'static [[i32; 4]] {
        match mode {
            Mode::Major => self.major,
            Mode::Minor => self.minor,
        }
    }

    /// Picks a progression.
    pub(super) fn pick(&self, mode: Mode, dice: &mut Dice) -> Progression {
        dice.pick(self.of(mode)).map(|root| Chord { root: root - 1 })
    }
}

impl Chord {
    /// Returns the scale steps of the triad: root, third, fifth.
    pub(super) fn steps(self) -> [i32; 3] {
        [self.root, self.root + 2, self.root + 4]
    }

    /// True if a scale step belongs to the triad.
    pub(super) fn has(self, step: i32) -> bool {
        self.steps().iter().any(|own| (own - step).rem_euclid(7) == 0)
    }

    /// Returns the ascending pitches of the triad within the octave above `lowest`, so that
    /// neighbouring chords share their register. The tonic chord doubles its root, to make the key
    /// clear.
    pub(super) fn close_voicing(self, key: Key, lowest: u8) -> Vec<u8> {
        let tones = self.steps().map(|step| raised(key.pitch_class(step), lowest));
        let doubled = (self == TONIC).then(|| doubled(&tones));
        rising(tones.into_iter().chain(doubled))
    }

    /// Returns root, third and fifth, ascending from the root.
    pub(super) fn root_voicing(self, key: Key, lowest: u8) -> [u8; 3] {
        let root = raised(key.pitch_class(self.root), lowest);
        self.steps().map(|step| raised(key.pitch_class(step), root))
    }

    /// Like [`Chord::close_voicing`], with a seventh on all chords except the tonic.
    ///
    /// A seventh on the tonic would suggest another key.
    pub(super) fn seventh_voicing(self, key: Key, lowest: u8) -> Vec<u8> {
        if self == TONIC {
            return self.close_voicing(key, lowest);
        }
        let steps = self.steps().into_iter().chain([self.root + 6]);
        rising(steps.map(|step| raised(key.pitch_class(step), lowest)))
    }

    /// Returns root, fifth and octave, without the fifth if it is diminished.
    pub(super) fn power_voicing(self, key: Key, lowest: u8) -> Vec<u8> {
        let root = raised(key.pitch_class(self.root), lowest);
        let fifth = raised(key.pitch_class(self.root + 4), root);
        if fifth == root + 7 { vec![root, fifth, root + 12] } else { vec![root, root + 12] }
    }
}

/// Returns the doubled root: above all tones if it is the lowest one, otherwise below all.
fn doubled(tones: &[u8; 3]) -> u8 {
    let [root, others @ ..] = *tones;
    if others.iter().all(|&tone| root < tone) { root + 12 } else { root - 12 }
}

/// Sorts pitches.
fn rising(pitches: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut pitches: Vec<u8> = pitches.collect();
    pitches.sort_unstable();
    pitches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voicings_are_the_chords_of_the_book() {
        let key = Key::new(0, Mode::Major);
        assert_eq!(TONIC.close_voicing(key, 60), [60, 64, 67, 72]);
        assert_eq!(TONIC.close_voicing(key, 55), [48, 55, 60, 64]);
        assert_eq!(TONIC.root_voicing(key, 65), [72, 76, 79]);
        assert_eq!(Chord { root: 4 }.close_voicing(key, 60), [62, 67, 71]);
        assert_eq!(Chord { root: 4 }.seventh_voicing(key, 60), [62, 65, 67, 71]);
        assert_eq!(Chord { root: 3 }.power_voicing(key, 40), [41, 48, 53]);
    }
}

//! Recipes: the parts of a style, and their patterns.
//!
//! A pattern is one bar of sixteenth notes, with beats at positions 0, 4, 8 and 12. Bars of three
//! beats use the first twelve positions. Signs:
//! - all: `.` is a rest, `-` holds the note before it;
//! - drums and chords: `X` loud, `x` normal, `o` soft;
//! - bass: `1` root, `5` fifth, `8` octave;
//! - arpeggios: `1` root, `2` third, `3` fifth, `4` to `6` the same an octave higher.
//!
//! On every beat of a bar, some part that always plays has an onset. Notes between the beats are
//! softer, so that the tempo is audible.

mod band;
mod club;
mod quiet;

use super::{harmony::Harmony, instrument::Instrument, melody::Pace, style::Style};

/// Musical role of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Triads.
    Triads,
    /// Triads, with sevenths except on the tonic.
    Sevenths,
    /// Roots and fifths.
    Powers,
    /// Broken chords.
    Arpeggio,
    /// Roots and fifths, one at a time.
    Bass,
    /// The theme.
    Melody(Pace),
    /// A drum.
    Drum,
}

/// The sections in which a part plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    /// In all sections, also in intro and outro.
    Always,
    /// In verse, bridge and chorus.
    Verse,
    /// In the chorus only.
    Chorus,
}

/// One part of a recipe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// The role.
    pub(super) role: Role,
    /// Possible instruments; a piece picks one.
    pub(super) instruments: &'static [Instrument],
    /// Lowest MIDI pitch of its register.
    pub(super) lowest: u8,
    /// Loudness: for pitched parts the level while they sound, for drums the peak of a full hit.
    pub(super) level: f32,
    /// The sections in which it plays.
    pub(super) layer: Layer,
    /// Probability that a piece has this part, in percent.
    pub(super) percent: u32,
    /// Patterns of one bar; a piece picks one for the verse and one for the chorus.
    pub(super) patterns: &'static [&'static str],
}

/// Properties of a style.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recipe {
    /// The progressions.
    pub(super) harmony: Harmony,
    /// Delay of the second sixteenth of each pair, in ticks (a sixteenth has 6).
    pub(super) swing: u32,
    /// Depth of the pumping of chords and bass on each beat: 0 = none, 1 = to silence.
    pub(super) pumping: f32,
    /// Loudness of the tape noise, in the unit of the pitched parts; 0 = none.
    pub(super) hiss: f32,
    /// The parts.
    pub(super) parts: &'static [Part],
}

/// A recipe without parts, swing, pumping and tape noise.
const STEADY: Recipe = Recipe {
    harmony: Harmony { major: &[], minor: &[] },
    swing: 0,
    pumping: 0.0,
    hiss: 0.0,
    parts: &[],
};

/// Returns the recipe of a style.
pub(super) fn recipe(style: Style) -> &'static Recipe {
    match style {
        Style::Ambient => &quiet::AMBIENT,
        Style::PianoBallad => &quiet::PIANO_BALLAD,
        Style::LofiHipHop => &quiet::LOFI_HIP_HOP,
        Style::Waltz => &quiet::WALTZ,
        Style::BossaNova => &band::BOSSA_NOVA,
        Style::Folk => &band::FOLK,
        Style::SynthPop => &band::SYNTH_POP,
        Style::Rock => &band::ROCK,
        Style::Chiptune => &club::CHIPTUNE,
        Style::House => &club::HOUSE,
        Style::Techno => &club::TECHNO,
        Style::DrumAndBass => &club::DRUM_AND_BASS,
        Style::Polka => &band::POLKA,
    }
}

/// Returns a part that every piece has, without patterns. `lowest` is a MIDI pitch.
const fn part(
    role: Role,
    instruments: &'static [Instrument],
    lowest: u8,
    level: f32,
    layer: Layer,
) -> Part {
    Part { role, instruments, lowest, level, layer, percent: 100, patterns: &[] }
}

impl Part {
    const fn in_percent(self, percent: u32) -> Self {
        Self { percent, ..self }
    }

    const fn with(self, patterns: &'static [&'static str]) -> Self {
        Self { patterns, ..self }
    }
}

/// Returns a drum part that every piece has.
const fn drum(
    instruments: &'static [Instrument],
    level: f32,
    layer: Layer,
    patterns: &'static [&'static str],
) -> Part {
    part(Role::Drum, instruments, 0, level, layer).with(patterns)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{super::key::Mode, *};

    #[test]
    fn patterns_are_one_bar_of_known_signs() {
        for style in Style::ALL.into_iter().chain([Style::Polka]) {
            for part in recipe(style).parts {
                let signs = match part.role {
                    Role::Drum | Role::Triads | Role::Sevenths | Role::Powers => "Xxo.-",
                    Role::Arpeggio => "123456.-",
                    Role::Bass => "158.-",
                    Role::Melody(_) => "",
                };
                for pattern in part.patterns {
                    assert_eq!(pattern.len(), 16, "{style}: {pattern}");
                    assert!(pattern.chars().all(|sign| signs.contains(sign)), "{style}: {pattern}");
                }
                assert_eq!(part.patterns.is_empty(), matches!(part.role, Role::Melody(_)));
            }
        }
    }

    #[test]
    fn progressions_begin_on_the_tonic_and_belong_to_one_style() {
        for mode in [Mode::Major, Mode::Minor] {
            let mut owners = HashMap::new();
            for style in Style::ALL.into_iter().chain([Style::Polka]) {
                for roots in recipe(style).harmony.of(mode) {
                    assert_eq!(roots[0], 1, "{style}: {roots:?}");
                    assert_eq!(owners.insert(roots, style), None, "{style}: {roots:?}");
                }
            }
        }
    }

    /// Styles whose beats are shared between kick and snare.
    const BACKBEAT: [Style; 1] = [Style::LofiHipHop];

    #[test]
    fn every_beat_has_an_onset_from_the_intro_on() {
        for style in Style::ALL.into_iter().chain([Style::Polka]) {
            for beat in 0..4 {
                let sounding = recipe(style).parts.iter().any(|part| {
                    part.layer == Layer::Always
                        && part.percent == 100
                        && !part.patterns.is_empty()
                        && part.patterns.iter().all(|pattern| {
                            !matches!(pattern.as_bytes()[4 * beat], b'.' | b'-' | b'o')
                        })
                });
                assert!(sounding || BACKBEAT.contains(&style), "{style}: beat {beat}");
            }
        }
    }
}

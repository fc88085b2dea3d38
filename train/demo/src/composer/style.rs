//! Styles of music.

use std::fmt;

use serde::{Serialize, Serializer};

/// A style; each has its own tempo range, rhythm, harmony, voicing and instruments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Pads and soft plucks on the beats, no drums.
    Ambient,
    /// Slow piano alone or with strings.
    PianoBallad,
    /// Relaxed, swung drums under an electric piano.
    LofiHipHop,
    /// Three quarters per bar: bass, chord, chord.
    Waltz,
    /// Nylon guitar, shaker and rim click.
    BossaNova,
    /// Strummed guitar and flute.
    Folk,
    /// Eighth-note synth bass, backbeat, lead.
    SynthPop,
    /// Overdriven guitars and loud drums.
    Rock,
    /// Square waves and fast arpeggios.
    Chiptune,
    /// Four on the floor, open hat between beats, chord stabs.
    House,
    /// Four on the floor, sixteenth bass, dark.
    Techno,
    /// Fast breakbeat and deep bass.
    DrumAndBass,
    /// Bass on the beats, accordion between them. Only on request: the demo model is not trained on
    /// it, so an adapter can learn it.
    Polka,
}

impl Style {
    /// The styles of a random choice, from slow to fast.
    pub const ALL: [Self; 12] = [
        Self::Ambient,
        Self::PianoBallad,
        Self::LofiHipHop,
        Self::Waltz,
        Self::BossaNova,
        Self::Folk,
        Self::SynthPop,
        Self::Rock,
        Self::Chiptune,
        Self::House,
        Self::Techno,
        Self::DrumAndBass,
    ];

    /// Returns the names in captions; the first is the main one.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Ambient => &["ambient"],
            Self::PianoBallad => &["piano ballad", "ballad"],
            Self::LofiHipHop => &["lofi hip hop", "lofi", "chillhop"],
            Self::Waltz => &["waltz"],
            Self::BossaNova => &["bossa nova", "bossa"],
            Self::Folk => &["folk", "acoustic folk"],
            Self::SynthPop => &["synth pop", "synthwave", "electropop"],
            Self::Rock => &["rock"],
            Self::Chiptune => &["chiptune", "8-bit"],
            Self::House => &["house"],
            Self::Techno => &["techno"],
            Self::DrumAndBass => &["drum and bass", "jungle"],
            Self::Polka => &["polka"],
        }
    }

    /// Returns the slowest and fastest tempo in beats per minute.
    pub fn tempo_range(self) -> (u32, u32) {
        match self {
            Self::Ambient => (60, 84),
            Self::PianoBallad => (60, 92),
            Self::LofiHipHop => (70, 98),
            Self::Waltz => (84, 180),
            Self::BossaNova => (100, 140),
            Self::Folk => (84, 128),
            Self::SynthPop => (100, 140),
            Self::Rock => (110, 164),
            Self::Chiptune => (110, 172),
            Self::House => (114, 132),
            Self::Techno => (126, 160),
            Self::DrumAndBass => (160, 180),
            Self::Polka => (108, 132),
        }
    }

    /// Returns the probability of three quarters per bar in a random choice.
    pub(super) fn three_chance(self) -> f64 {
        match self {
            Self::Waltz => 1.0,
            Self::Ambient | Self::PianoBallad => 0.2,
            _ => 0.0,
        }
    }

    /// Returns the probability of a minor key in a random choice.
    pub(super) fn minor_chance(self) -> f64 {
        match self {
            Self::Polka => 0.2,
            Self::Folk => 0.35,
            Self::Waltz | Self::BossaNova | Self::Chiptune => 0.4,
            Self::Ambient | Self::SynthPop | Self::PianoBallad => 0.5,
            Self::LofiHipHop | Self::House | Self::Rock => 0.55,
            Self::DrumAndBass => 0.7,
            Self::Techno => 0.8,
        }
    }
}

impl fmt::Display for Style {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.names()[0])
    }
}

impl Serialize for Style {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_sixty_to_a_hundred_and_eighty() {
        for bpm in 60..=180 {
            let covered = Style::ALL.iter().any(|style| {
                let (slowest, fastest) = style.tempo_range();
                (slowest..=fastest).contains(&bpm)
            });
            assert!(covered, "{bpm}");
        }
    }
}

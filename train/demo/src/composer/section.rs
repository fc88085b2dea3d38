//! Sections of a piece, for its number of bars.

use serde::Serialize;

use super::dice::Dice;

/// Kind of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SectionKind {
    /// Few instruments.
    Intro,
    /// Most instruments.
    Verse,
    /// All instruments.
    Chorus,
    /// A change before the last chorus.
    Bridge,
    /// Few instruments again.
    Outro,
}

impl SectionKind {
    /// Returns the structure tag of lyrics, for example `[Verse]`.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Intro => "[Intro]",
            Self::Verse => "[Verse]",
            Self::Chorus => "[Chorus]",
            Self::Bridge => "[Bridge]",
            Self::Outro => "[Outro]",
        }
    }
}

/// A sequence of whole bars; the last section of a piece may be cut off by its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Section {
    /// The kind.
    pub kind: SectionKind,
    /// First bar, counted from 0.
    pub start: u32,
    /// Length in bars, at least 1.
    pub bars: u32,
}

/// Divides `bars` bars (at least 1) into sections.
pub(super) fn sections_from_bars(bars: u32, dice: &mut Dice) -> Vec<Section> {
    // Sections of four bars hold a whole phrase; short pieces use shorter ones.
    let unit = match bars {
        0..6 => 1,
        6..14 => 2,
        _ => 4,
    };
    let kinds = kinds_from_units((bars / unit).max(1), dice);
    let mut sections: Vec<Section> = Vec::new();
    for kind in kinds {
        match sections.last_mut() {
            Some(last) if last.kind == kind => last.bars += unit,
            Some(&mut Section { start, bars, .. }) => {
                sections.push(Section { kind, start: start + bars, bars: unit });
            }
            None => sections.push(Section { kind, start: 0, bars: unit }),
        }
    }
    if let Some(last) = sections.last_mut() {
        last.bars = bars - last.start;
    }
    sections
}

/// Returns one kind per unit; equal neighbours become one section.
fn kinds_from_units(units: u32, dice: &mut Dice) -> Vec<SectionKind> {
    use SectionKind::{Bridge, Chorus, Intro, Outro, Verse};
    let short: &[&[SectionKind]] = match units {
        1 => &[&[Verse], &[Chorus]],
        2 => &[&[Verse, Chorus], &[Intro, Verse], &[Intro, Chorus], &[Verse, Verse]],
        3 => &[&[Intro, Verse, Chorus], &[Verse, Chorus, Chorus], &[Verse, Verse, Chorus]],
        4 => &[
            &[Intro, Verse, Chorus, Chorus],
            &[Intro, Verse, Verse, Chorus],
            &[Verse, Verse, Chorus, Chorus],
            &[Intro, Verse, Chorus, Outro],
        ],
        5 => &[
            &[Intro, Verse, Verse, Chorus, Chorus],
            &[Verse, Chorus, Bridge, Chorus, Chorus],
            &[Intro, Verse, Chorus, Chorus, Outro],
            &[Verse, Chorus, Verse, Chorus, Chorus],
        ],
        _ => &[],
    };
    if !short.is_empty() {
        return dice.pick(short).to_vec();
    }
    let cycle: &[SectionKind] = if dice.chance(0.5) {
        &[Verse, Chorus, Verse, Chorus, Bridge, Chorus]
    } else {
        &[Verse, Verse, Chorus, Chorus, Bridge, Chorus, Chorus]
    };
    let mut kinds = Vec::new();
    if dice.chance(0.8) {
        kinds.push(Intro);
    }
    let outro = dice.chance(0.4);
    let body = units - kinds.len() as u32 - u32::from(outro);
    kinds.extend(cycle.iter().copied().cycle().take(body as usize));
    if outro {
        kinds.push(Outro);
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::{super::dice::Stream, *};

    #[test]
    fn sections_cover_all_bars_in_order() {
        for bars in 1..60 {
            for seed in 0..20 {
                let sections = sections_from_bars(bars, &mut Dice::new(seed, Stream::Form));
                let mut next = 0;
                for section in &sections {
                    assert_eq!(section.start, next);
                    assert!(section.bars > 0);
                    next += section.bars;
                }
                assert_eq!(next, bars);
            }
        }
    }
}

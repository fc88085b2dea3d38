//! Pieces, and wishes for them.

use serde::Serialize;

use super::{
    arrange::{self, ArrangeInputs},
    band::Band,
    caption::{Subject, caption},
    dice::{Dice, Stream},
    instrument::Instrument,
    key::{Key, Mode},
    meter::Meter,
    recipe::recipe,
    score::{Note, TICKS_PER_BEAT, sample_from_tick},
    section::{Section, sections_from_bars},
    style::Style,
    synth::{self, SAMPLE_RATE, Stereo},
};

/// Slowest and fastest tempo of all pieces, in beats per minute.
const TEMPO: (u32, u32) = (60, 180);

/// Shortest and longest piece, in seconds.
const DURATION_S: (f64, f64) = (2.0, 600.0);

/// Seconds before the end in which no note starts, because the fade would hide it.
const LAST_START_S: f64 = 0.08;

/// Requested properties of a piece; the seed decides each one that is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wish {
    /// Style.
    pub style: Option<Style>,
    /// Beats per minute, clamped to 60..=180. Without a style, a style with this tempo is chosen;
    /// with a style, this value overrides the style's range.
    pub bpm: Option<u32>,
    /// Key.
    pub key: Option<Key>,
    /// Beats per bar. Without a style, three chooses a style that supports waltz time.
    pub meter: Option<Meter>,
    /// Length in seconds, clamped to 2..=600; otherwise 10 to 20 whole seconds.
    pub duration_s: Option<f64>,
    /// The players.
    pub band: Band,
}

/// A piece of music with its labels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Piece {
    /// The seed.
    pub seed: u64,
    /// A description in English that names the style.
    pub caption: String,
    /// `[Instrumental]`, or the tags of the sections, with blank lines between them.
    pub lyrics: String,
    /// Beats per minute, 60..=180.
    pub bpm: u32,
    /// Key.
    pub keyscale: Key,
    /// Beats per bar.
    pub timesignature: Meter,
    /// Length in seconds.
    pub duration: f64,
    /// Style.
    pub style: Style,
    /// The players.
    pub band: Band,
    /// The instruments that play at least one note, each once.
    pub instruments: Vec<Instrument>,
    /// The sections, in order, without gaps.
    pub sections: Vec<Section>,
    /// All notes, ordered by start.
    #[serde(skip)]
    pub notes: Vec<Note>,
}

/// The sound of one part.
#[derive(Debug, Clone, PartialEq)]
pub struct Stem {
    /// The instrument.
    pub instrument: Instrument,
    /// The sound, as long as the piece.
    pub sound: Stereo,
}

impl Piece {
    /// Composes the piece of a seed. The same seed and wish give the same piece.
    pub fn compose(seed: u64, wish: &Wish) -> Self {
        let style = wish.style.unwrap_or_else(|| style(seed, wish));
        let meter = wish.meter.unwrap_or_else(|| {
            let three = Dice::new(seed, Stream::Meter).chance(style.three_chance());
            if three { Meter::Three } else { Meter::Four }
        });
        let (slowest, fastest) = style.tempo_range();
        let bpm = wish
            .bpm
            .map(|bpm| bpm.clamp(TEMPO.0, TEMPO.1))
            .unwrap_or_else(|| Dice::new(seed, Stream::Tempo).between(slowest, fastest));
        let keyscale = wish.key.unwrap_or_else(|| key(seed, style));
        let duration = wish
            .duration_s
            .map(|seconds| seconds.clamp(DURATION_S.0, DURATION_S.1))
            .unwrap_or_else(|| f64::from(Dice::new(seed, Stream::Duration).between(10, 20)));

        let beats = duration * f64::from(bpm) / 60.0;
        // A bar with less than half a beat before the end is not counted.
        let bars = ((beats - 0.5) / f64::from(meter.beats())).ceil().max(1.0) as u32;
        let sections = sections_from_bars(bars, &mut Dice::new(seed, Stream::Form));
        let end =
            ((duration - LAST_START_S) * f64::from(bpm) / 60.0 * f64::from(TICKS_PER_BEAT)) as u32;
        let plan = ArrangeInputs {
            seed,
            recipe: recipe(style),
            key: keyscale,
            meter,
            sections: &sections,
            end,
        };
        let notes = arrange::notes(&plan);

        let mut instruments: Vec<Instrument> = notes.iter().map(|note| note.instrument).collect();
        instruments.sort_unstable();
        instruments.dedup();
        let subject = Subject { style, bpm, key: keyscale, instruments: &instruments };
        let caption = caption(&subject, &mut Dice::new(seed, Stream::Caption));
        let lyrics = lyrics(&sections, &mut Dice::new(seed, Stream::Lyrics));
        Self {
            seed,
            caption,
            lyrics,
            bpm,
            keyscale,
            timesignature: meter,
            duration,
            style,
            band: wish.band,
            instruments,
            sections,
            notes,
        }
    }

    /// Returns the samples per channel: `duration * 48000`, rounded.
    pub fn samples(&self) -> usize {
        (self.duration * f64::from(SAMPLE_RATE)).round() as usize
    }

    /// Returns the sample of each beat inside the piece, starting at 0.
    pub fn beats(&self) -> Vec<usize> {
        (0..)
            .map(|beat| sample_from_tick(beat * TICKS_PER_BEAT, self.bpm))
            .take_while(|&sample| sample < self.samples())
            .collect()
    }

    /// Renders the sound at 48 kHz, with a peak of 0.8.
    pub fn render(&self) -> Stereo {
        synth::mix(self, &self.stems())
    }

    /// Renders the sound of each part, at its level in the mix before scaling and fading. Tape
    /// noise belongs to no part.
    pub fn stems(&self) -> Vec<Stem> {
        synth::stems(self)
    }
}

/// Picks a style that allows the wished tempo and meter; any style if none does.
fn style(seed: u64, wish: &Wish) -> Style {
    let fits = |style: &Style| {
        let (slowest, fastest) = style.tempo_range();
        wish.bpm.is_none_or(|bpm| (slowest..=fastest).contains(&bpm))
            && match wish.meter {
                Some(Meter::Three) => style.three_chance() > 0.0,
                Some(Meter::Four) => style.three_chance() < 1.0,
                None => true,
            }
    };
    let fitting: Vec<Style> = Style::ALL.into_iter().filter(fits).collect();
    let styles: &[Style] = if fitting.is_empty() { &Style::ALL } else { &fitting };
    Dice::new(seed, Stream::Style).pick(styles)
}

fn key(seed: u64, style: Style) -> Key {
    let mut dice = Dice::new(seed, Stream::Key);
    let mode = if dice.chance(style.minor_chance()) { Mode::Minor } else { Mode::Major };
    Key::new(dice.between(0, 11) as u8, mode)
}

fn lyrics(sections: &[Section], dice: &mut Dice) -> String {
    if dice.chance(0.5) {
        return "[Instrumental]".to_owned();
    }
    let tags: Vec<&str> = sections.iter().map(|section| section.kind.tag()).collect();
    tags.join("\n\n")
}

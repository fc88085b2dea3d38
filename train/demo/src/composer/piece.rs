//! Pieces and what may be wished of them.

use serde::Serialize;

use super::{
    arrange::{self, Plan},
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

/// Slowest and fastest tempo of all pieces, in beats a minute.
const TEMPO: (u32, u32) = (60, 180);

/// Shortest and longest piece, in seconds.
const DURATION_S: (f64, f64) = (2.0, 600.0);

/// Seconds before the end in which no note starts any more, since the fade would swallow it.
const LAST_START_S: f64 = 0.08;

/// What a piece shall be; what is `None` the seed decides.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wish {
    /// Style.
    pub style: Option<Style>,
    /// Beats a minute, brought into 60..=180. Without a style, one that is played so fast is
    /// chosen; with one, the wish counts more than the style's range.
    pub bpm: Option<u32>,
    /// Key.
    pub key: Option<Key>,
    /// Beats a bar. Without a style, three chooses one that knows waltz time.
    pub meter: Option<Meter>,
    /// Seconds, brought into 2..=600; else 10 to 20 whole seconds.
    pub duration_s: Option<f64>,
    /// Who plays.
    pub band: Band,
}

/// A piece of music with its labels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Piece {
    /// The seed it was made from.
    pub seed: u64,
    /// A description in English that names the style.
    pub caption: String,
    /// `[Instrumental]`, or the tags of the sections, a blank line between them.
    pub lyrics: String,
    /// Beats a minute, 60..=180.
    pub bpm: u32,
    /// Key.
    pub keyscale: Key,
    /// Beats a bar.
    pub timesignature: Meter,
    /// Seconds.
    pub duration: f64,
    /// Style.
    pub style: Style,
    /// Who plays.
    pub band: Band,
    /// The instruments that really sound, each once.
    pub instruments: Vec<Instrument>,
    /// The sections, in order, without gaps.
    pub sections: Vec<Section>,
    /// All notes, by start.
    #[serde(skip)]
    pub notes: Vec<Note>,
}

/// The sound of one part.
#[derive(Debug, Clone, PartialEq)]
pub struct Stem {
    /// Who plays.
    pub instrument: Instrument,
    /// As long as the piece.
    pub sound: Stereo,
}

impl Piece {
    /// Composes the piece of a seed. Same seed and wish, same piece.
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
        // A bar of which less than half a beat would sound is no bar of the plan.
        let bars = ((beats - 0.5) / f64::from(meter.beats())).ceil().max(1.0) as u32;
        let sections = sections_from_bars(bars, &mut Dice::new(seed, Stream::Form));
        let end =
            ((duration - LAST_START_S) * f64::from(bpm) / 60.0 * f64::from(TICKS_PER_BEAT)) as u32;
        let plan =
            Plan { seed, recipe: recipe(style), key: keyscale, meter, sections: &sections, end };
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

    /// Samples of each channel: `duration * 48000`, to the nearest.
    pub fn samples(&self) -> usize {
        (self.duration * f64::from(SAMPLE_RATE)).round() as usize
    }

    /// The sample of each beat inside the piece, from 0 on.
    pub fn beats(&self) -> Vec<usize> {
        (0..)
            .map(|beat| sample_from_tick(beat * TICKS_PER_BEAT, self.bpm))
            .take_while(|&sample| sample < self.samples())
            .collect()
    }

    /// The sound at 48 kHz, peak 0.8.
    pub fn render(&self) -> Stereo {
        synth::mix(self, &self.stems())
    }

    /// The sound of each part, at the levels of the mix before it is scaled and faded. The noise of a tape
    /// belongs to none of them.
    pub fn stems(&self) -> Vec<Stem> {
        synth::stems(self)
    }
}

/// A style that suits the wished tempo and meter; any, if none does.
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

//! The composer: labelled pieces of procedural music, from a seed.
//!
//! seed + [`Wish`] -> style, key, meter, tempo, duration -> sections -> notes -> stems -> mix
//!
//! The labels of a piece (caption, bpm, key, meter, sections, lyrics) are what the music was made
//! from, so they are right by construction. Notes and labels are the same on every machine; the
//! samples are too, as far as the platform's `sin`, `exp` and `pow` agree in their last bit.

mod arrange;
mod band;
mod caption;
mod dice;
mod harmony;
mod instrument;
mod key;
mod melody;
mod meter;
mod piece;
mod recipe;
mod score;
mod section;
mod style;
mod synth;
#[cfg(test)]
mod tests;

/// Which composer this is. What a seed sounds like is a matter of this number too: corpora and states of
/// training that come from another are made again.
pub const REVISION: u32 = 3;

pub use band::Band;
pub use instrument::Instrument;
pub use key::{Key, Mode};
pub use meter::Meter;
pub use piece::{Piece, Stem, Wish};
pub use score::{Note, TICKS_PER_BEAT, sample_from_tick};
pub use section::{Section, SectionKind};
pub use style::Style;
pub use synth::{SAMPLE_RATE, Stereo};

//! The composer: labelled pieces of procedural music from a seed.
//!
//! seed + [`Wish`] -> style, key, meter, tempo, duration -> sections -> notes -> stems -> mix
//!
//! The music is made from its labels (caption, bpm, key, meter, sections, lyrics), so they are
//! always right. Notes and labels are the same on every machine. Samples are too, if the platforms'
//! `sin`, `exp` and `pow` agree in their last bit.

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

/// Version of the composer. A seed's sound depends on it, so corpora and training states of another
/// version are created again.
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

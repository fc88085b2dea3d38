//! An independent listener: measures tempo, key, style and faults of a 48 kHz stereo song.
//!
//! Tests use it to compare a generated song with its request. It does not depend on the generator,
//! its styles or its tempo ranges. Its rules come from research on hearing, and each file names
//! its papers.
//!
//! | property | function |
//! |---|---|
//! | tempo | [`tempo`] |
//! | key | [`key`] |
//! | style | [`features`], [`Styles`] |
//! | faults | [`faults`] |
//!
//! NaN and infinite values count as silence everywhere except in [`faults`], which counts them.

mod chroma;
mod classes;
mod faults;
mod features;
mod key;
mod linear;
mod onset;
mod pulse;
mod sound;
mod spectrum;
mod tempo;

#[cfg(test)]
mod synth;

pub use classes::Styles;
pub use faults::{Faults, faults};
pub use features::{Features, NAMES, features};
pub use key::{DetectedKey, key};
pub use sound::{RATE, Sound};
pub use tempo::{FASTEST, SLOWEST, Tempo, tempo};

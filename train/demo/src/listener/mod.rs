//! An independent listener: what can be heard in a rendered 48 kHz stereo song.
//!
//! Tests use it to ask whether a generated song is what was asked for. It knows nothing about
//! the generator, its styles or its tempo ranges: every rule is one of hearing, and each file
//! names the paper it comes from. What each part answers:
//!
//! | question | function |
//! |---|---|
//! | how fast? | [`tempo`] |
//! | which key? | [`key`] |
//! | which sound? | [`features`], [`Styles`] |
//! | is the file broken? | [`faults`] |
//!
//! Values that are not finite count as silence everywhere except in [`faults`], which counts them.

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
pub use key::{Key, key};
pub use sound::{RATE, Sound};
pub use tempo::{FASTEST, SLOWEST, Tempo, tempo};

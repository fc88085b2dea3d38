//! Renders notes to sound: one stem per part, then the mix.

mod drum;
mod filter;
mod mix;
mod table;
mod timbre;
mod voice;

pub(super) use mix::{mix, stems};

/// Sample rate of all sound, in hertz.
pub const SAMPLE_RATE: u32 = 48_000;

/// Left and right channel, of equal length.
pub type Stereo = [Vec<f32>; 2];

/// Samples between two evaluations of slow values such as envelopes; 0.7 ms.
const BLOCK: usize = 32;

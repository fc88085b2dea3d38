//! From notes to sound: one stem a part, then the mix.

mod drum;
mod filter;
mod mix;
mod table;
mod timbre;
mod voice;

pub(super) use mix::{mix, stems};

/// Samples a second of all sound.
pub const SAMPLE_RATE: u32 = 48_000;

/// Left and right channel, as long as each other.
pub type Stereo = [Vec<f32>; 2];

/// Samples between two evaluations of slow things such as envelopes; 0.7 ms.
const BLOCK: usize = 32;

//! Memory needs of Mimi's encoder, which turns recordings into codes.

use acestep_engine::{
    device::memory::{Lifetime, MemoryNeed, Widths, product},
    progress::Stage,
};
use acestep_model::speech::mimi::Config;

/// Samples per second of a recording that is read.
const SAMPLE_RATE: f64 = 24_000.0;

/// Computes the needs of the encoder for a recording of `seconds`, which it reads at once. Weights are
/// exact. Work memory is an estimate.
pub(crate) fn codec_encoder(
    stage: Stage,
    config: &Config,
    parameters: u64,
    seconds: f64,
    widths: Widths,
) -> MemoryNeed {
    let samples = (seconds * SAMPLE_RATE).ceil() as usize;
    // The first stage is the widest: a residual unit holds its input, activations with padding, and sums.
    let widest = product(&[samples, config.num_filters]) * widths.number;
    MemoryNeed {
        stage,
        lifetime: Lifetime::Run,
        weights: widths.weights_of_others(parameters),
        work: 4 * widest,
        cache: 0,
        largest: widest,
    }
}

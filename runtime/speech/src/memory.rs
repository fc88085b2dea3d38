//! Memory needs of codecs, the same for every family. Weights are exact. Work memory is an estimate.

use acestep_engine::{
    device::memory::{Lifetime, MemoryNeed, Widths, product},
    progress::Stage,
};
use acestep_model::speech::mimi::Config;

/// Samples per second of a recording that is read.
const SAMPLE_RATE: f64 = 24_000.0;

/// Computes the needs of a network whose widest stage has `[samples, channels]`, `copies` times.
pub(crate) fn codec(
    stage: Stage,
    parameters: u64,
    widths: Widths,
    widest: [usize; 2],
    copies: u64,
) -> MemoryNeed {
    let largest = product(&widest) * widths.number;
    MemoryNeed {
        stage,
        lifetime: Lifetime::Run,
        weights: widths.weights_of_others(parameters),
        work: copies * largest,
        cache: 0,
        largest,
    }
}

/// Computes the needs of Mimi's encoder for a recording of `seconds`, which it reads at once.
pub(crate) fn codec_encoder(
    stage: Stage,
    config: &Config,
    parameters: u64,
    seconds: f64,
    widths: Widths,
) -> MemoryNeed {
    let samples = (seconds * SAMPLE_RATE).ceil() as usize;
    // The first stage is the widest: a residual unit holds its input, activations with padding, and sums.
    codec(stage, parameters, widths, [samples, config.num_filters], 4)
}

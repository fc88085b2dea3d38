//! Memory needs of a run, computed before anything is loaded.
//!
//! Weights and caches are exact. Work memory is an estimate.

use acestep_engine::device::memory::{LayerSizes, Lifetime, MemoryNeed, Widths, product};
use acestep_model::speech::{
    magpie::{Config, Sizes},
    nanocodec,
};
use burn::tensor::DType;

use super::stage;
use crate::memory;

/// Frames of a chunk of sound that count at least.
const LEAST_FRAMES: usize = 8;

/// Computes the needs of encoder, decoder and local transformer, which have `parameters` together, for
/// chunks of at most `steps` steps with guidance.
pub fn decoder(
    config: &Config,
    sizes: &Sizes,
    parameters: u64,
    steps: usize,
    widths: Widths,
) -> MemoryNeed {
    let layers = &config.decoder.stack;
    let rows = 2;
    let positions = sizes.context_rows + steps;
    let one = product(&[layers.d_model, positions, rows]) * widths.number;
    let of =
        LayerSizes { hidden: layers.d_model, intermediate: layers.d_ffn, heads: layers.d_model };
    // The tables of codes, of text, of voices, and of positions.
    let table = product(&[sizes.code_rows(), config.codes_per_stack(sizes), layers.d_model]);
    let words = sizes.text_rows + sizes.context_lengths.len() * sizes.context_rows;
    let places = [&config.encoder, layers]
        .map(|stack| product(&[stack.max_length_causal_mask, stack.d_model]));
    let tables = table + product(&[words, config.embedding_dim]) + places.iter().sum::<u64>();
    MemoryNeed {
        stage: stage::DECODER,
        lifetime: Lifetime::Run,
        weights: widths.weights_and_tables(parameters, tables, false),
        work: of.work(positions * rows, widths.number),
        cache: 2 * layers.n_layers as u64 * one,
        largest: widths.weights_of_others(table).max(one),
    }
}

/// Computes the needs of the codec's decoder, which is in f32, for chunks of `frames`.
pub fn codec_decoder(config: &nanocodec::Config, parameters: u64, frames: usize) -> MemoryNeed {
    let widths = Widths::all(DType::F32);
    // The last stage is the widest: all its samples in a few channels, several times.
    let samples = frames.max(LEAST_FRAMES) * config.samples_per_frame;
    let decoder = &config.audio_decoder;
    let narrow = decoder.base_channels >> decoder.up_sample_rates.len();
    memory::codec(stage::CODEC_DECODER, parameters, widths, [samples, narrow], 8)
}

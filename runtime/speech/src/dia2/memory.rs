//! Memory needs of a dialogue, computed before anything is loaded.
//!
//! Weights and caches are exact. Work memory is an estimate.

use acestep_engine::device::memory::{LayerSizes, Lifetime, MemoryNeed, Widths, product};
use acestep_model::speech::{dia2, mimi};
use burn::tensor::DType;

use super::stage;
use crate::memory;

/// The most frames that the codec decodes at once: recordings are long.
pub(super) const MOST_DECODED: usize = 256;

/// Computes the needs of backbone and depformer, which have `parameters` together, for a run with
/// `rows` rows.
pub fn networks(config: &dia2::Config, parameters: u64, rows: usize, widths: Widths) -> MemoryNeed {
    let decoder = &config.model.decoder;
    let sizes = LayerSizes {
        hidden: decoder.n_embd,
        intermediate: decoder.n_hidden,
        heads: decoder.gqa_query_heads * decoder.gqa_head_dim,
    };
    let keys = decoder.kv_heads * decoder.gqa_head_dim;
    let steps = config.runtime.max_context_steps + 1;
    let one = product(&[keys, steps, rows]) * widths.number;
    let inner = decoder.low_rank_dim.unwrap_or(decoder.n_embd);
    let table = product(&[config.data.text_vocab_size, inner]);
    MemoryNeed {
        stage: stage::SPEECH,
        lifetime: Lifetime::Run,
        weights: widths.weights(parameters),
        work: sizes.work(rows, widths.number),
        cache: 2 * decoder.n_layer as u64 * one,
        largest: widths.weights(table).max(one),
    }
}

/// Computes the needs of the codec's decoder, which is in f32, for chunks of any size.
pub fn codec_decoder(config: &mimi::Config, parameters: u64) -> MemoryNeed {
    let widths = Widths::all(DType::F32);
    // The last stage is the widest: all its samples in a few channels, several times.
    let samples = MOST_DECODED * config.samples_per_frame();
    memory::codec(stage::CODEC_DECODER, parameters, widths, [samples, config.num_filters], 4)
}

/// Computes the needs of the codec's encoder, which is in f32, for a recording of `seconds`.
pub fn codec_encoder(config: &mimi::Config, parameters: u64, seconds: f64) -> MemoryNeed {
    let (stage, widths) = (stage::CODEC_ENCODER, Widths::all(DType::F32));
    memory::codec_encoder(stage, config, parameters, seconds, widths)
}

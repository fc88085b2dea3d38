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
/// `rows` rows. `in_place` is true if tables are read in their file.
pub fn networks(
    config: &dia2::Config,
    (parameters, in_place): (u64, bool),
    rows: usize,
    widths: Widths,
) -> MemoryNeed {
    let (data, decoder, depformer) = (&config.data, &config.model.decoder, &config.model.depformer);
    let sizes = LayerSizes {
        hidden: decoder.n_embd,
        intermediate: decoder.n_hidden,
        heads: decoder.gqa_query_heads * decoder.gqa_head_dim,
    };
    let keys = decoder.kv_heads * decoder.gqa_head_dim;
    let steps = config.runtime.max_context_steps + 1;
    let one = product(&[keys, steps, rows]) * widths.number;
    let inner = decoder.low_rank_dim.unwrap_or(decoder.n_embd);
    let table = product(&[data.text_vocab_size, inner]);
    let codes = data.codebooks() * decoder.n_embd + config.schedule().len() * depformer.n_embd;
    let text = if depformer.text_embedding { depformer.n_embd } else { 0 };
    let tables =
        table + product(&[data.audio_vocab_size, codes]) + product(&[data.text_vocab_size, text]);
    MemoryNeed {
        stage: stage::SPEECH,
        lifetime: Lifetime::Run,
        weights: widths.weights_and_tables(parameters, tables, in_place),
        work: sizes.work(rows, widths.number),
        cache: 2 * decoder.n_layer as u64 * one,
        largest: widths.weights_of_others(table).max(one),
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

//! Memory needs of speech, computed before anything is loaded.
//!
//! Weights and caches are exact. Work memory is an estimate.

use acestep_engine::device::memory::{LayerSizes, Lifetime, MemoryNeed, Widths, product};
use acestep_model::speech::qwen3_tts::{Config, codec::DecoderConfig};

use super::stage;

/// Rows of a prompt that count as work memory.
const PROMPT: usize = 512;
/// Frames of a recording that the codec decodes at once.
const RECORDING: usize = 64;

/// Computes the needs of talker and code predictor for `rows` runs at once of at most `positions`
/// prompt rows and frames.
pub fn talker(
    config: &Config,
    parameters: u64,
    rows: usize,
    positions: usize,
    widths: Widths,
) -> MemoryNeed {
    let layers = &config.talker_config.layers;
    let sizes = LayerSizes {
        hidden: layers.hidden_size,
        intermediate: layers.intermediate_size,
        heads: layers.num_attention_heads * layers.head_dim,
    };
    let keys = layers.num_key_value_heads * layers.head_dim;
    let one = product(&[keys, positions, rows]) * widths.number;
    let table =
        product(&[config.talker_config.text_vocab_size, config.talker_config.text_hidden_size]);
    MemoryNeed {
        stage: stage::TALKER,
        lifetime: Lifetime::Run,
        weights: widths.weights(parameters),
        work: sizes.work(PROMPT.min(positions), widths.number),
        cache: 2 * layers.num_hidden_layers as u64 * one,
        largest: widths.weights(table).max(one),
    }
}

/// Computes the needs of the codec's decoder for chunks of `frames`.
pub fn codec_decoder(
    config: &DecoderConfig,
    parameters: u64,
    frames: usize,
    widths: Widths,
) -> MemoryNeed {
    // The last stage is the widest: all its samples in a few channels, several times.
    let samples = frames.max(RECORDING) * config.samples_per_frame();
    let narrow = config.decoder_dim >> config.upsample_rates.len();
    let widest = product(&[samples, narrow]) * widths.number;
    MemoryNeed {
        stage: stage::CODEC_DECODER,
        lifetime: Lifetime::Run,
        weights: widths.weights_of_others(parameters),
        work: 8 * widest,
        cache: 0,
        largest: widest,
    }
}

#[cfg(test)]
mod tests {
    use acestep_engine::device::memory::peak;
    use acestep_import::{Layout, Qwen3Tts, Qwen3TtsNetwork, TINY_SPEECH};
    use acestep_model::speech::qwen3_tts::Files as _;
    use burn::tensor::DType;

    use super::*;

    /// Keys and values of every layer for each position, and the weights of both networks.
    #[test]
    fn a_run_needs_its_weights_and_a_cache_of_its_length() {
        let model = Qwen3Tts::find(Some(TINY_SPEECH), &Layout::new([])).expect("built in");
        let size = |network| model.size(network).expect("built in").parameters;
        let parameters = size(Qwen3TtsNetwork::Talker);
        let of = |rows, positions| {
            talker(model.config(), parameters, rows, positions, Widths::all(DType::F32))
        };
        let layers = &model.config().talker_config.layers;
        let one = 2 * layers.num_hidden_layers * layers.num_key_value_heads * layers.head_dim * 4;
        assert_eq!(of(3, 100).cache, (one * 3 * 100) as u64);
        assert_eq!(of(1, 100).weights, 4 * parameters);
        let decoder = size(Qwen3TtsNetwork::CodecDecoder);
        let config = &model.codec_config().decoder_config;
        let decoder = codec_decoder(config, decoder, 8, Widths::all(DType::F32));
        let together = peak(&[of(1, 100), decoder], true);
        assert!(together > of(1, 100).weights + decoder.weights);
    }
}

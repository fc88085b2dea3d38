//! Memory needs of speech, computed before anything is loaded.
//!
//! Weights and caches are exact. Work memory is an estimate.

use acestep_engine::device::memory::{LayerSizes, Lifetime, MemoryNeed, Widths, bytes_of, product};
use acestep_model::speech::{
    mimi,
    qwen3_tts::{Config, SpeakerEncoderConfig, codec::DecoderConfig},
};
use burn::tensor::DType;

use super::{mel, stage};
use crate::memory;

/// Rows of a prompt that count as work memory.
const PROMPT: usize = 512;
/// Frames of a recording that the codec decodes at once.
const RECORDING: usize = 64;

/// Computes the needs of talker and code predictor for `rows` runs at once of at most `positions`
/// prompt rows and frames. `in_place` is true if tables are read in their file.
pub fn talker(
    config: &Config,
    (parameters, in_place): (u64, bool),
    rows: usize,
    positions: usize,
    widths: Widths,
) -> MemoryNeed {
    let talker = &config.talker_config;
    let layers = &talker.layers;
    let sizes = LayerSizes {
        hidden: layers.hidden_size,
        intermediate: layers.intermediate_size,
        heads: layers.num_attention_heads * layers.head_dim,
    };
    let keys = layers.num_key_value_heads * layers.head_dim;
    let one = product(&[keys, positions, rows]) * widths.number;
    let table = product(&[talker.text_vocab_size, talker.text_hidden_size]);
    let others = talker.num_code_groups.saturating_sub(1);
    let codes = talker.vocab_size + others * talker.code_predictor_config.vocab_size;
    let tables = table + product(&[codes, layers.hidden_size]);
    MemoryNeed {
        stage: stage::TALKER,
        lifetime: Lifetime::Run,
        weights: widths.weights_and_tables(parameters, tables, in_place),
        work: sizes.work(PROMPT.min(positions), widths.number),
        cache: 2 * layers.num_hidden_layers as u64 * one,
        largest: widths.weights_of_others(table).max(one),
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
    memory::codec(stage::CODEC_DECODER, parameters, widths, [samples, narrow], 8)
}

/// Computes the needs of the speaker encoder for a recording of `seconds`.
pub fn speaker_encoder(
    config: &SpeakerEncoderConfig,
    parameters: u64,
    seconds: f64,
    widths: Widths,
) -> MemoryNeed {
    // The pooling is the widest: its input in both types, even weights, and three inputs joined.
    let channels = config.enc_channels.last().copied().unwrap_or_default();
    let samples = (seconds * f64::from(mel::SAMPLE_RATE)).ceil() as usize;
    let one = product(&[mel::frames_of(samples), channels]);
    MemoryNeed {
        stage: stage::SPEAKER_ENCODER,
        lifetime: Lifetime::Run,
        weights: widths.weights_of_others(parameters),
        work: one * (4 * widths.number + 2 * bytes_of(DType::F32)),
        cache: 0,
        largest: 3 * one * widths.number,
    }
}

/// Computes the needs of the codec's encoder for a recording of `seconds`.
pub fn codec_encoder(
    config: &mimi::Config,
    parameters: u64,
    seconds: f64,
    widths: Widths,
) -> MemoryNeed {
    memory::codec_encoder(stage::CODEC_ENCODER, config, parameters, seconds, widths)
}

#[cfg(test)]
mod tests {
    use acestep_engine::device::memory::peak;
    use acestep_import::{Layout, Qwen3Tts, Qwen3TtsNetwork, TINY_SPEECH};
    use acestep_model::speech::qwen3_tts::Files as _;

    use super::*;

    /// Keys and values of every layer for each position, and the weights of both networks.
    #[test]
    fn a_run_needs_its_weights_and_a_cache_of_its_length() {
        let model = Qwen3Tts::find(Some(TINY_SPEECH), &Layout::new([])).expect("built in");
        let size = |network| model.size(network).expect("built in").parameters;
        let parameters = size(Qwen3TtsNetwork::Talker);
        let of = |rows, positions| {
            talker(model.config(), (parameters, false), rows, positions, Widths::all(DType::F32))
        };
        let layers = &model.config().talker_config.layers;
        let one = 2 * layers.num_hidden_layers * layers.num_key_value_heads * layers.head_dim * 4;
        assert_eq!(of(3, 100).cache, (one * 3 * 100) as u64);
        assert_eq!(of(1, 100).weights, 4 * parameters);
        // A text table of 450 times 40 and code tables of 1,088 and 15 times 64 rows of 48 stay bf16.
        let widths = Widths { weight: DType::I8, number: 4 };
        for (in_place, bytes) in [(false, 2 * 116_304), (true, 0)] {
            let need = talker(model.config(), (parameters, in_place), 1, 100, widths);
            assert_eq!(need.weights, (parameters - 116_304) / 8 * 9 + bytes);
        }
        let decoder = size(Qwen3TtsNetwork::CodecDecoder);
        let config = &model.codec_config().decoder_config;
        let decoder = codec_decoder(config, decoder, 8, Widths::all(DType::F32));
        let together = peak(&[of(1, 100), decoder], true);
        assert!(together > of(1, 100).weights + decoder.weights);
    }

    /// 2 s are 48 000 samples, and 187 frames of a spectrogram: (48 000 + 768 - 768) / 256, without the rest.
    #[test]
    fn a_recording_needs_its_encoders_and_work_of_its_length() {
        let base = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/goldens/checkpoints_qwen3_tts/Qwen3-TTS-12Hz-0.6B-Base"
        );
        let model = Qwen3Tts::open(base.as_ref()).expect("the goldens are here");
        let widths = [DType::F32, DType::BF16].map(Widths::all);
        let codec = &model.codec_config().encoder_config;
        let need = codec_encoder(codec, 1000, 2.0, widths[0]);
        assert_eq!((need.weights, need.largest), (4000, 48_000 * 4 * codec.num_filters as u64));
        assert_eq!(need.work, 4 * need.largest);
        let config = model.config().speaker_encoder_config.as_ref().expect("a base model");
        let channels = config.enc_channels[4] as u64;
        let [wide, narrow] = widths.map(|widths| speaker_encoder(config, 1000, 2.0, widths));
        assert_eq!((wide.weights, wide.work), (4000, 187 * channels * 24));
        assert_eq!((narrow.weights, narrow.work), (2000, 187 * channels * 16));
        assert_eq!(narrow.largest, 187 * channels * 6);
    }
}

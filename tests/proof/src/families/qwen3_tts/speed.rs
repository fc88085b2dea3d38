//! Each part of a frame alone, at full size, with random weights.

use acestep_engine::{error::counted, host::to_host};
use acestep_model::{
    Backend, Place,
    speech::qwen3_tts::{
        CodePredictor, Config, LayersConfig, Talker,
        codec::{self, Decoder, DecoderState},
    },
};
use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    families::{released, with},
    measure::{
        Cost, Run,
        clock::{self, wait},
        conv, layer, matvec,
        weights::{codes, random_weights},
    },
};

/// The work of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// One row through the talker, and its logits.
    Talker(Sizes),
    /// Fifteen codes of a frame.
    Predictor(Sizes),
    /// Frames of codes to samples, so many at once.
    Codec(usize),
}

/// Sizes of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    B06,
    B17,
}

/// Rows that the talker has read before: a prompt and some seconds.
pub(super) const BEFORE: usize = 64;
/// Frames per second.
pub(super) const FRAMES_PER_SECOND: f64 = 12.5;

impl Work {
    /// Returns the sizes of the model.
    pub(crate) fn sizes(self) -> Option<Sizes> {
        match self {
            Self::Talker(sizes) | Self::Predictor(sizes) => Some(sizes),
            Self::Codec(_) => None,
        }
    }

    /// Measures the work; its weights are freed afterwards.
    ///
    /// # Errors
    /// If a released configuration cannot be read.
    pub(crate) fn run<B: Backend>(self, place: &Place<B>) -> Result<Run> {
        match self {
            Self::Talker(sizes) => talker(&sizes.config()?, place),
            Self::Predictor(sizes) => predictor(&sizes.config()?, place),
            Self::Codec(frames) => decode(frames, place),
        }
    }
}

fn talker<B: Backend>(config: &Config, place: &Place<B>) -> Result<Run> {
    let device = &place.device;
    let talker = random_weights(Talker::<B>::init(config, device), place.dtype);
    let mut cache = Talker::cache(config, 1, BEFORE + 1, place);
    let _ = talker.read(talker.codec(&[7; BEFORE], device), 0..1, &mut cache);
    let codes = vec![vec![5; config.talker_config.num_code_groups]];
    let work = || {
        cache.truncate(0, BEFORE);
        let cache = &mut cache;
        B::on_pool(|| {
            let hidden = talker.read(talker.frames(&codes, device), 0..1, cache);
            drop(to_host(talker.scores(hidden)));
        });
    };
    let time = clock::time(work, || wait::<B>(device));
    let cost = layers(&config.talker_config.layers)
        + matvec(config.talker_config.layers.hidden_size, config.talker_config.vocab_size);
    let unit = format!("1 frame after {BEFORE} rows");
    Ok(Run::of_speech(unit, cost, time, 1.0 / FRAMES_PER_SECOND))
}

fn predictor<B: Backend>(config: &Config, place: &Place<B>) -> Result<Run> {
    let device = &place.device;
    let talker = random_weights(Talker::<B>::init(config, device), place.dtype);
    let predictor = talker.code_predictor();
    let mut cache = CodePredictor::cache(&config.talker_config, 1, place);
    let work = || {
        cache.truncate(0, 0);
        let cache = &mut cache;
        B::on_pool(|| {
            let mut x = talker.codec(&[7, 9], device);
            for group in 1..predictor.groups() {
                let scores = to_host(predictor.scores(x, group, 0..1, cache));
                // Any code will do, but it must wait for the scores.
                let code = u32::from(scores[0] > 0.0);
                x = predictor.codes(group, &[code], device);
            }
        });
    };
    let time = clock::time(work, || wait::<B>(device));
    let (own, steps) = (&config.talker_config.code_predictor_config, predictor.groups() - 1);
    let one = layers(&own.layers) + matvec(own.layers.hidden_size, own.vocab_size);
    // Each step reads all weights again.
    let (unit, cost) = (format!("{steps} codes of a frame"), one * steps as f64);
    Ok(Run::of_speech(unit, cost, time, 1.0 / FRAMES_PER_SECOND))
}

fn decode<B: Backend>(frames: usize, place: &Place<B>) -> Result<Run> {
    let config = codec_config()?;
    let device = &place.device;
    let decoder =
        random_weights(Decoder::<B>::init(&config.decoder_config, device), place.dtype).prepacked();
    let codes = codes::<B>([config.decoder_config.num_quantizers, frames], 2048, device);
    let mut state = DecoderState::default();
    // Past its beginning, where less is known.
    for _ in 0..72usize.div_ceil(frames) {
        drop(to_host(decoder.forward(codes.clone(), &mut state)));
    }
    let work = || {
        let (codes, state) = (codes.clone(), &mut state);
        B::on_pool(|| drop(to_host(decoder.forward(codes, state))));
    };
    let time = clock::time(work, || wait::<B>(device));
    let (unit, cost) = (counted(frames, "frame"), codec_cost(&config.decoder_config, frames));
    Ok(Run::of_speech(unit, cost, time, frames as f64 / FRAMES_PER_SECOND))
}

/// Returns the cost of layers for one row; attention to few keys is left out.
fn layers(config: &LayersConfig) -> Cost {
    let heads = [config.num_attention_heads, config.num_key_value_heads];
    let heads = heads.map(|heads| heads * config.head_dim);
    let one = layer(1.0, config.hidden_size, heads, config.intermediate_size);
    one * config.num_hidden_layers as f64
}

/// Returns the cost of decoding frames.
fn codec_cost(config: &codec::DecoderConfig, frames: usize) -> Cost {
    let mut samples = frames as f64;
    let (latent, wide) = (config.latent_dim, config.hidden_size);
    let heads = config.num_attention_heads * config.head_dim;
    let layer = layer(samples, wide, [heads; 2], config.intermediate_size);
    let mut cost = conv(samples, config.codebook_dim, latent, 3)
        + conv(samples, latent, 2 * wide, 1)
        + layer * config.num_hidden_layers as f64;
    for &factor in &config.upsampling_ratios {
        // Each output sample gets one tap of a transposed filter as wide as its stride.
        samples *= factor as f64;
        cost = cost + conv(samples, latent, latent, 1) + conv(samples, latent, 8 * latent, 1);
    }
    cost = cost + conv(samples, latent, config.decoder_dim, 7);
    for (index, &rate) in config.upsample_rates.iter().enumerate() {
        let (wide, channels) = (config.decoder_dim >> index, config.decoder_dim >> (index + 1));
        samples *= rate as f64;
        let unit = conv(samples, channels, channels, 7) + conv(samples, channels, channels, 1);
        cost = cost + conv(samples, wide, channels, 2) + unit * 3.0;
    }
    cost
}

impl Sizes {
    /// Returns the released configuration, without the speaker encoder.
    pub(super) fn config(self) -> Result<Config> {
        released(Config::from_json, &self.values())
    }

    /// [`Self::config`] as JSON.
    pub(super) fn values(self) -> Value {
        let (wide, inner, size) = match self {
            Self::B06 => (1024, 3072, "0b6"),
            Self::B17 => (2048, 6144, "1b7"),
        };
        let layers = |wide: usize, inner: usize, count: usize| {
            json!({
                "hidden_size": wide, "intermediate_size": inner, "num_hidden_layers": count,
                "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                "rope_theta": 1_000_000, "rms_norm_eps": 1e-6, "attention_bias": false,
                "hidden_act": "silu", "num_code_groups": 16,
            })
        };
        let predictor = with(layers(1024, 3072, 5), &json!({ "vocab_size": 2048 }));
        let talker = with(
            layers(wide, inner, 28),
            &json!({
                "vocab_size": 3072, "text_vocab_size": 151_936, "text_hidden_size": 2048,
                "max_position_embeddings": 32_768,
                "codec_pad_id": 2148, "codec_bos_id": 2149, "codec_eos_token_id": 2150,
                "codec_think_id": 2154, "codec_nothink_id": 2155, "codec_think_bos_id": 2156,
                "codec_think_eos_id": 2157, "codec_language_id": {}, "spk_id": {},
                "spk_is_dialect": {}, "code_predictor_config": predictor,
            }),
        );
        json!({
            "tts_model_type": "custom_voice", "tts_model_size": size,
            "tokenizer_type": "qwen3_tts_tokenizer_12hz", "tts_pad_token_id": 151_671,
            "tts_bos_token_id": 151_672, "tts_eos_token_id": 151_673, "talker_config": talker,
        })
    }
}

/// Returns the released configuration of the codec.
pub(super) fn codec_config() -> Result<codec::Config> {
    released(codec::Config::from_json, &codec_values())
}

/// [`codec_config`] as JSON.
pub(super) fn codec_values() -> Value {
    json!({
        "encoder_valid_num_quantizers": 16, "input_sample_rate": 24_000,
        "output_sample_rate": 24_000, "encode_downsample_rate": 1920,
        "decode_upsample_rate": 1920,
        "decoder_config": {
            "codebook_size": 2048, "codebook_dim": 512, "num_quantizers": 16, "latent_dim": 1024,
            "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 8,
            "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 64,
            "sliding_window": 72, "rope_theta": 10_000, "rms_norm_eps": 1e-5,
            "upsampling_ratios": [2, 2], "decoder_dim": 1536, "upsample_rates": [8, 5, 4, 3],
            "attention_bias": false, "hidden_act": "silu",
        },
        "encoder_config": {
            "num_filters": 64, "kernel_size": 7, "residual_kernel_size": 3, "last_kernel_size": 3,
            "upsampling_ratios": [8, 6, 5, 4], "compress": 2, "hidden_size": 512,
            "intermediate_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 8,
            "num_key_value_heads": 8, "head_dim": 64, "rope_theta": 10_000, "norm_eps": 1e-5,
            "codebook_size": 2048, "codebook_dim": 256, "num_quantizers": 32,
            "num_semantic_quantizers": 1, "num_residual_layers": 1, "audio_channels": 1,
            "pad_mode": "constant", "use_causal_conv": true, "normalize": false,
            "hidden_act": "gelu", "attention_bias": false,
            "vector_quantization_hidden_dimension": 256,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of the specification: 0.44 and 1.29 GMAC for a frame of the 0.6B model, and 31
    /// GMAC for a second of the codec.
    #[test]
    fn costs_agree_with_published_ones() {
        let config = Sizes::B06.config().expect("the released sizes");
        let talker = layers(&config.talker_config.layers).flop / 2e9;
        assert!((talker - 0.44).abs() < 0.01, "{talker}");
        let one = layers(&config.talker_config.code_predictor_config.layers);
        assert!((one.weights / 1e6 - 78.6).abs() < 0.1, "{one:?}");
        let codec = codec_config().expect("the released sizes");
        let second = codec_cost(&codec.decoder_config, 25).flop / 2.0 / 2e9;
        assert!((second - 31.0).abs() < 1.0, "{second}");
    }
}

//! Each part of a frame alone, at full size, with random weights.

use acestep_engine::{error::counted, host::to_host};
use acestep_model::{
    Backend, Place,
    speech::qwen3_tts::{
        CodePredictor, Config, LayersConfig, Talker,
        codec::{self, Decoder, DecoderState},
    },
};
use anyhow::{Context, Result};
use burn::tensor::{Int, Tensor, TensorData};
use serde_json::{Value, json};

use crate::measure::{
    Cost, Rate, Run,
    clock::{self, wait},
    conv, matvec,
    weights::random_weights,
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

/// Returns a run of one frame.
fn frame(unit: String, cost: Cost, time: clock::Time) -> Run {
    let rate = Rate::new(time.wall_s * FRAMES_PER_SECOND, "s per second of speech");
    Run { unit, cost, time, rate }
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
    let cost = layers(&config.talker_config.layers, 1.0)
        + matvec(config.talker_config.layers.hidden_size, config.talker_config.vocab_size);
    Ok(frame(format!("1 frame after {BEFORE} rows"), cost, time))
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
    let one = layers(&own.layers, 1.0) + matvec(own.layers.hidden_size, own.vocab_size);
    // Each step reads all weights again.
    Ok(frame(format!("{steps} codes of a frame"), one * steps as f64, time))
}

fn decode<B: Backend>(frames: usize, place: &Place<B>) -> Result<Run> {
    let config = codec_config()?;
    let device = &place.device;
    let decoder =
        random_weights(Decoder::<B>::init(&config.decoder_config, device), place.dtype).prepacked();
    let groups = config.decoder_config.num_quantizers;
    let codes: Vec<i32> = (0..groups * frames).map(|i| (i * 37 % 2048) as i32).collect();
    let codes = Tensor::<B, 2, Int>::from_data(TensorData::new(codes, [groups, frames]), device);
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

/// Returns the cost of layers for `rows` rows; attention to few keys is left out.
fn layers(config: &LayersConfig, rows: f64) -> Cost {
    let (wide, heads) = (config.hidden_size, config.num_attention_heads * config.head_dim);
    let kv = config.num_key_value_heads * config.head_dim;
    let one = matvec(wide, heads + 2 * kv)
        + matvec(heads, wide)
        + matvec(wide, 3 * config.intermediate_size);
    let all = one * config.num_hidden_layers as f64;
    Cost { flop: all.flop * rows, weights: all.weights }
}

/// Returns the cost of decoding frames.
fn codec_cost(config: &codec::DecoderConfig, frames: usize) -> Cost {
    let mut samples = frames as f64;
    let (latent, wide) = (config.latent_dim, config.hidden_size);
    let heads = config.num_attention_heads * config.head_dim;
    let layer = conv(samples, wide, 3 * heads, 1)
        + conv(samples, heads, wide, 1)
        + conv(samples, wide, 3 * config.intermediate_size, 1);
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
        let config = self.values().to_string();
        Config::from_json(&config).context("the released configuration cannot be read")
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
        let with = |mut object: Value, more: Value| {
            for (key, value) in more.as_object().into_iter().flatten() {
                object[key] = value.clone();
            }
            object
        };
        let predictor = with(layers(1024, 3072, 5), json!({ "vocab_size": 2048 }));
        let talker = with(
            layers(wide, inner, 28),
            json!({
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
    codec::Config::from_json(&codec_values().to_string())
        .context("the released configuration cannot be read")
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
        let talker = layers(&config.talker_config.layers, 1.0).flop / 2e9;
        assert!((talker - 0.44).abs() < 0.01, "{talker}");
        let one = layers(&config.talker_config.code_predictor_config.layers, 1.0);
        assert!((one.weights / 1e6 - 78.6).abs() < 0.1, "{one:?}");
        let codec = codec_config().expect("the released sizes");
        let second = codec_cost(&codec.decoder_config, 25).flop / 2.0 / 2e9;
        assert!((second - 31.0).abs() < 1.0, "{second}");
    }
}

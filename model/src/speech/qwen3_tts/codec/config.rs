//! `config.json` of the speech tokenizer.
//!
//! Source: upstream `configuration_qwen3_tts_tokenizer_v2.py`.

use serde::Deserialize;

use super::super::super::{
    inherited::{INHERITED, without},
    mimi,
};
use crate::{
    ConfigError,
    config::{Rest, parse, refuse_unknown, require, require_plain},
    limits::{keys, layer_shape, sizes, transformer},
    nn::LayerShape,
};

/// The keys of the speech tokenizer's `config.json` that affect the result.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Codebooks that count; the encoder stores more.
    pub encoder_valid_num_quantizers: usize,
    /// The decoder.
    pub decoder_config: DecoderConfig,
    /// The encoder.
    pub encoder_config: mimi::Config,
    input_sample_rate: u32,
    output_sample_rate: u32,
    encode_downsample_rate: usize,
    decode_upsample_rate: usize,
    #[serde(flatten)]
    rest: Rest,
}

/// The decoder.
#[derive(Debug, Clone, Deserialize)]
pub struct DecoderConfig {
    /// Entries of a codebook.
    pub codebook_size: usize,
    /// Width of the quantised vectors; a codebook has half of it.
    pub codebook_dim: usize,
    /// Codes of a frame.
    pub num_quantizers: usize,
    /// Width between the transformer and the convolutions.
    pub latent_dim: usize,
    /// Width of the transformer's residual stream.
    pub hidden_size: usize,
    /// Width inside its feed-forward blocks.
    pub intermediate_size: usize,
    /// Number of its layers.
    pub num_hidden_layers: usize,
    /// Its query heads.
    pub num_attention_heads: usize,
    /// Its key and value heads.
    pub num_key_value_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Frames that a frame sees, its own included.
    pub sliding_window: usize,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// Epsilon under the root of the transformer's norms.
    pub rms_norm_eps: f64,
    /// Factors of the ConvNeXt stages.
    pub upsampling_ratios: Vec<usize>,
    /// Channels of the first decoder stage; each stage halves them.
    pub decoder_dim: usize,
    /// Factors of the decoder stages.
    pub upsample_rates: Vec<usize>,
    attention_bias: bool,
    hidden_act: String,
    #[serde(flatten)]
    rest: Rest,
}

/// Keys of the decoder that do not affect the result, with the reason.
const IGNORED_OF_DECODER: &[(&str, &str)] = &[
    ("attention_dropout", "training only"),
    ("layer_scale_initial_scale", "training only"),
    ("max_position_embeddings", "positions are computed, not stored"),
    ("num_semantic_quantizers", "not used by the reference: always one"),
    ("semantic_codebook_size", "not used by the reference: codebook_size"),
    ("vector_quantization_hidden_dimension", "not used by the reference: half of codebook_dim"),
];

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is missing, malformed, unknown, or asks for something that is not
    /// implemented.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: Self = parse(text)?;
        let ignored = &[("model_type", "checked by the layout")];
        refuse_unknown(&without(&config.rest, INHERITED), &[ignored])?;
        for (key, rate) in keys!(config: input_sample_rate, output_sample_rate) {
            require(rate == 24_000, key, rate, "only 24000")?;
        }
        let decoder = &config.decoder_config;
        decoder.check()?;
        config.encoder_config.check()?;
        let samples = decoder.samples_per_frame();
        let rate = config.decode_upsample_rate;
        let why = "must be the product of upsample_rates and upsampling_ratios";
        require(rate == samples, "decode_upsample_rate", rate, why)?;
        let rate = config.encode_downsample_rate;
        let why = "must be twice the product of the encoder's upsampling_ratios";
        let expected = config.encoder_config.samples_per_frame();
        require(rate == expected, "encode_downsample_rate", rate, why)?;
        let count = config.encoder_valid_num_quantizers;
        let why = "must be the decoder's num_quantizers";
        require(count == decoder.num_quantizers, "encoder_valid_num_quantizers", count, why)?;
        let semantic = config.encoder_config.num_semantic_quantizers;
        let why = "must be less than encoder_valid_num_quantizers";
        require(semantic < count, "num_semantic_quantizers", semantic, why)?;
        let all = config.encoder_config.num_quantizers;
        let why = "must be at least encoder_valid_num_quantizers";
        require(all >= count, "num_quantizers", all, why)?;
        let codes = config.encoder_config.codebook_size;
        let why = "must be the same in encoder_config and decoder_config";
        require(codes == decoder.codebook_size, "codebook_size", codes, why)?;
        Ok(config)
    }
}

impl DecoderConfig {
    fn check(&self) -> Result<(), ConfigError> {
        refuse_unknown(&without(&self.rest, INHERITED), &[IGNORED_OF_DECODER])?;
        let own = keys!(self: codebook_size, codebook_dim, latent_dim, sliding_window, decoder_dim);
        sizes(&own)?;
        transformer(self.layer_shape(), self.num_hidden_layers, "rms_norm_eps", self.rope_theta)?;
        require_plain(self.attention_bias, &self.hidden_act, &None)?;
        let (halves, why) = (self.codebook_dim, "a codebook has half of its width");
        require(halves.is_multiple_of(2), "codebook_dim", halves, why)?;
        let groups = self.num_quantizers;
        require((2..=64).contains(&groups), "num_quantizers", groups, "from 2 to 64")?;
        for (key, rates) in [
            ("upsample_rates", &self.upsample_rates),
            ("upsampling_ratios", &self.upsampling_ratios),
        ] {
            let is_usual =
                (1..=8).contains(&rates.len()) && rates.iter().all(|r| (1..=16).contains(r));
            require(is_usual, key, rates, "one to eight factors from 1 to 16")?;
        }
        let halvings = 1 << self.upsample_rates.len();
        let why = "must be divisible by two for each of upsample_rates";
        require(self.decoder_dim.is_multiple_of(halvings), "decoder_dim", self.decoder_dim, why)
    }

    /// Returns the number of samples of a frame.
    pub fn samples_per_frame(&self) -> usize {
        self.upsample_rates.iter().chain(&self.upsampling_ratios).product()
    }

    /// Returns the sizes of the transformer's layers.
    pub(super) fn layer_shape(&self) -> LayerShape {
        layer_shape!(self, rms_norm_eps)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The acoustic codebooks are the rest of the codebooks that count.
    #[test]
    fn the_semantic_codebooks_leave_at_least_one_acoustic_codebook_that_counts() {
        let text = include_str!(
            "../../../../../tests/goldens/checkpoints_qwen3_tts/Qwen3-TTS-Tokenizer-12Hz/config.json"
        );
        let with = |semantic: usize| {
            let mut config: Value = serde_json::from_str(text).expect("JSON");
            config["encoder_config"]["num_semantic_quantizers"] = json!(semantic);
            Config::from_json(&config.to_string())
        };
        assert_eq!(with(15).expect("one is left").encoder_valid_num_quantizers, 16);
        for semantic in [16, 17, 19] {
            let error = with(semantic).expect_err("none is left").to_string();
            let expected = format!(
                "key `num_semantic_quantizers` is {semantic}: must be less than \
                 encoder_valid_num_quantizers"
            );
            assert_eq!(error, expected);
        }
    }
}

//! The configuration of Mimi: a `config.json` of its own, or a part of another one.
//!
//! Source: transformers 4.57 `configuration_mimi.py`.

use serde::Deserialize;

use super::super::inherited::{INHERITED, without};
use crate::{
    ConfigError,
    config::{Rest, parse, refuse_unknown, require, rope_theta},
    limits::{keys, layer_shape, size, sizes, transformer},
    nn::LayerShape,
};

/// The keys that affect the result.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Channels of the first convolution; each stage doubles them.
    pub num_filters: usize,
    /// Taps of the first convolution.
    pub kernel_size: usize,
    /// Taps of the residual units.
    pub residual_kernel_size: usize,
    /// Taps of the last convolution.
    pub last_kernel_size: usize,
    /// Factors of the stages, the last one first.
    pub upsampling_ratios: Vec<usize>,
    /// Divisor of the channels inside a residual unit.
    pub compress: usize,
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
    /// Base of the rotary angles.
    #[serde(alias = "rope_parameters", deserialize_with = "rope_theta")]
    pub rope_theta: f64,
    /// Epsilon under the root of the layer norms.
    pub norm_eps: f64,
    /// Entries of a codebook.
    pub codebook_size: usize,
    /// Width of a codebook.
    pub codebook_dim: usize,
    /// All codebooks.
    pub num_quantizers: usize,
    /// Codebooks of the semantic quantizer.
    pub num_semantic_quantizers: usize,
    /// Positions that a position of a transformer sees, its own included. The reference's encoder
    /// does not apply it in every version.
    pub sliding_window: Option<usize>,
    num_residual_layers: usize,
    audio_channels: usize,
    pad_mode: String,
    use_causal_conv: bool,
    #[serde(default)]
    normalize: bool,
    sampling_rate: Option<u32>,
    trim_right_ratio: Option<f64>,
    upsample_groups: Option<usize>,
    hidden_act: String,
    attention_bias: bool,
    vector_quantization_hidden_dimension: usize,
    #[serde(default)]
    use_conv_shortcut: bool,
    #[serde(flatten)]
    rest: Rest,
}

/// Keys that do not affect the result, with the reason.
const IGNORED: &[(&str, &str)] = &[
    ("_frame_rate", "the product of the factors"),
    ("attention_dropout", "training only"),
    ("dilation_growth_rate", "only with several residual layers"),
    ("frame_rate", "the product of the factors"),
    ("frame_size", "the product of the factors"),
    ("initializer_range", "training only"),
    ("layer_scale_initial_scale", "training only"),
    ("max_position_embeddings", "positions are computed, not stored"),
    ("model_type", "checked by the layout"),
    ("use_cache", "a cache does not change the result"),
    ("use_streaming", "a cache does not change the result"),
];

impl Config {
    /// Reads the `config.json` of a whole codec.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is missing, malformed, unknown, or asks for something that is not
    /// implemented.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: Self = parse(text)?;
        config.check()?;
        let rate = config.sampling_rate;
        require(rate == Some(24_000), "sampling_rate", rate, "only 24000")?;
        let trim = config.trim_right_ratio.unwrap_or(1.0);
        require(trim == 1.0, "trim_right_ratio", trim, "only 1: the decoder looks back alone")?;
        let groups = config.upsample_groups;
        let is_depthwise = groups == Some(config.hidden_size);
        require(is_depthwise, "upsample_groups", groups, "must be hidden_size")?;
        let window = config.sliding_window;
        require(window.is_some(), "sliding_window", window, "a number of positions")?;
        Ok(config)
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is unknown, or asks for something that is not implemented.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        refuse_unknown(&without(&self.rest, INHERITED), &[IGNORED])?;
        sizes(&keys!(self: num_filters, kernel_size, residual_kernel_size, last_kernel_size))?;
        sizes(&keys!(self: codebook_size, codebook_dim, num_quantizers))?;
        transformer(self.layer_shape(), self.num_hidden_layers, "norm_eps", self.rope_theta)?;
        self.sliding_window.map_or(Ok(()), |window| size("sliding_window", window))?;
        let residual = self.num_residual_layers;
        require(residual == 1, "num_residual_layers", residual, "only 1")?;
        require(self.audio_channels == 1, "audio_channels", self.audio_channels, "only 1")?;
        require(self.pad_mode == "constant", "pad_mode", &self.pad_mode, "only constant")?;
        require(self.use_causal_conv, "use_causal_conv", false, "only true")?;
        require(!self.normalize, "normalize", true, "only false")?;
        require(!self.use_conv_shortcut, "use_conv_shortcut", true, "only false")?;
        require(self.hidden_act == "gelu", "hidden_act", &self.hidden_act, "only gelu")?;
        require(!self.attention_bias, "attention_bias", true, "only projections without bias")?;
        let width = self.vector_quantization_hidden_dimension;
        let why = "must be codebook_dim";
        let key = "vector_quantization_hidden_dimension";
        require(width == self.codebook_dim, key, width, why)?;
        let semantic = self.num_semantic_quantizers;
        let why = "from 1 to less than num_quantizers";
        let is_usual = (1..self.num_quantizers).contains(&semantic);
        require(is_usual, "num_semantic_quantizers", semantic, why)?;
        let ratios = &self.upsampling_ratios;
        let is_usual =
            (1..=8).contains(&ratios.len()) && ratios.iter().all(|r| (1..=16).contains(r));
        require(is_usual, "upsampling_ratios", ratios, "one to eight factors from 1 to 16")?;
        let compress = self.compress;
        let divides = compress > 0 && self.num_filters.is_multiple_of(compress);
        require(divides, "compress", compress, "must divide num_filters")
    }

    /// Returns the number of samples of a frame.
    pub fn samples_per_frame(&self) -> usize {
        self.upsampling_ratios.iter().product::<usize>() * 2
    }

    /// Returns the sizes of the transformer's layers.
    pub(super) fn layer_shape(&self) -> LayerShape {
        layer_shape!(self, norm_eps)
    }
}

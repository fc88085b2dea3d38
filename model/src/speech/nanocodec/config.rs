//! `model_config.yaml` of NanoCodec, as JSON.
//!
//! Most keys of the file are settings of the training or of the encoder, which are ignored here. The
//! defaults are those of `CausalHiFiGANDecoder` of the reference.

use serde::Deserialize;

use super::ScalarQuantizer;
use crate::{
    config::{ConfigError, number, parse, require, yes},
    limits::sizes,
};

/// More entries than any list of the decoder has.
const MOST_ENTRIES: usize = 16;

/// The configuration of the codec.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Config {
    target: Option<String>,
    /// Samples of a second.
    pub sample_rate: usize,
    /// Samples of a frame.
    pub samples_per_frame: usize,
    /// The decoder.
    pub audio_decoder: DecoderConfig,
    /// The codes.
    pub vector_quantizer: QuantizerConfig,
}

/// The sizes of the decoder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DecoderConfig {
    #[serde(rename = "_target_")]
    target: Option<String>,
    /// Factors of the sample rate, stage by stage.
    pub up_sample_rates: Vec<usize>,
    /// Channels of the latent.
    pub input_dim: usize,
    /// Channels before the first stage.
    pub base_channels: usize,
    /// Taps of the first convolution.
    #[serde(default = "number::<7>")]
    pub in_kernel_size: usize,
    /// Taps of the last convolution.
    #[serde(default = "number::<3>")]
    pub out_kernel_size: usize,
    /// Taps of the convolutions of each chain of a stage.
    #[serde(default = "taps")]
    pub resblock_kernel_sizes: Vec<usize>,
    /// Dilations of the blocks of a chain.
    #[serde(default = "dilations")]
    pub resblock_dilation_sizes: Vec<usize>,
    /// The last operation.
    #[serde(default = "tanh")]
    pub output_activation: OutputActivation,
    activation: String,
    #[serde(default = "zeros")]
    pad_mode: String,
    #[serde(default = "yes")]
    n_groups_equal_to_out_channels: bool,
}

/// The last operation of the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputActivation {
    /// Samples beyond -1 and 1 become these.
    Clamp,
    /// The hyperbolic tangent.
    Tanh,
}

/// The codes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct QuantizerConfig {
    /// Number of codebooks.
    pub num_groups: usize,
    /// Levels of each dimension of a codebook.
    pub num_levels_per_group: Vec<u32>,
}

fn taps() -> Vec<usize> {
    vec![3, 7, 11]
}

fn dilations() -> Vec<usize> {
    vec![1, 3, 5]
}

fn zeros() -> String {
    "zeros".into()
}

fn tanh() -> OutputActivation {
    OutputActivation::Tanh
}

impl Config {
    /// Parses `text`, the configuration as JSON.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is missing or asks for something that is not implemented.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: Self = parse(text)?;
        let target = config.target.as_deref().unwrap_or("AudioCodecModel");
        let is_other = target.rsplit('.').next() != Some("AudioCodecModel");
        require(!is_other, "target", target, "only AudioCodecModel")?;
        let rate = config.sample_rate;
        require((1..=384_000).contains(&rate), "sample_rate", rate, "1 to 384000")?;
        let DecoderConfig {
            target,
            up_sample_rates,
            input_dim,
            base_channels,
            in_kernel_size,
            out_kernel_size,
            resblock_kernel_sizes,
            resblock_dilation_sizes,
            activation,
            pad_mode,
            n_groups_equal_to_out_channels: groups,
            output_activation: _,
        } = &config.audio_decoder;
        let target = target.as_deref().unwrap_or("CausalHiFiGANDecoder");
        let is_causal = target.rsplit('.').next() == Some("CausalHiFiGANDecoder");
        require(is_causal, "_target_", target, "only CausalHiFiGANDecoder")?;
        require(activation == "half_snake", "activation", activation, "only half_snake")?;
        require(pad_mode == "zeros", "pad_mode", pad_mode, "only zeros")?;
        require(*groups, "n_groups_equal_to_out_channels", groups, "only true")?;
        for (key, sizes) in [
            ("resblock_kernel_sizes", resblock_kernel_sizes),
            ("resblock_dilation_sizes", resblock_dilation_sizes),
            ("up_sample_rates", up_sample_rates),
        ] {
            // The names of the tensors grow with the product of the lengths.
            let length = sizes.len();
            require((1..=MOST_ENTRIES).contains(&length), key, length, "1 to 16 entries")?;
            let usable = sizes.iter().all(|size| (1..=64).contains(size));
            require(usable, key, sizes, "numbers from 1 to 64")?;
        }
        for (key, taps) in
            [("in_kernel_size", in_kernel_size), ("out_kernel_size", out_kernel_size)]
        {
            require((1..=64).contains(taps), key, taps, "1 to 64")?;
        }
        let groups = config.vector_quantizer.num_groups;
        sizes(&[
            ("input_dim", *input_dim),
            ("base_channels", *base_channels),
            ("num_groups", groups),
        ])?;
        let per_frame =
            up_sample_rates.iter().try_fold(1, |all: usize, &rate| all.checked_mul(rate));
        let fits = per_frame == Some(config.samples_per_frame);
        let why = "must be the product of up_sample_rates";
        require(fits, "samples_per_frame", config.samples_per_frame, why)?;
        let stages = up_sample_rates.len();
        let halves =
            stages < 16 && base_channels >> stages > 0 && base_channels % (1 << stages) == 0;
        require(halves, "base_channels", base_channels, "must have a half for every stage")?;
        let QuantizerConfig { num_groups, num_levels_per_group: levels } = &config.vector_quantizer;
        let usable = !levels.is_empty() && levels.iter().all(|level| (2..=64).contains(level));
        require(usable, "num_levels_per_group", levels, "numbers from 2 to 64")?;
        let count = levels.iter().try_fold(1, |all: u32, &level| all.checked_mul(level));
        let few = count.is_some_and(|count| count <= 1 << 20);
        require(few, "num_levels_per_group", levels, "at most 2^20 codes")?;
        let fits = num_groups.checked_mul(levels.len()) == Some(*input_dim);
        require(fits, "input_dim", input_dim, "must be the dimensions of all groups")?;
        Ok(config)
    }

    /// Returns the number of codebooks.
    pub fn codebooks(&self) -> usize {
        self.vector_quantizer.num_groups
    }

    /// Returns the codes of one codebook.
    pub fn quantizer(&self) -> ScalarQuantizer {
        ScalarQuantizer::new(self.vector_quantizer.num_levels_per_group.clone())
    }

    /// Returns the number of frames of a second.
    pub fn frames_per_second(&self) -> f64 {
        self.sample_rate as f64 / self.samples_per_frame as f64
    }
}

//! `config.json` of Dia2.
//!
//! Source: nari-labs/dia2 `dia2/config.py`, whose defaults apply to missing keys. It ignores unknown
//! keys, and so does this module.

use serde::Deserialize;

use crate::{
    ConfigError,
    config::{number, parse, require, require_groups, yes},
    limits::{keys, layers, positive, size, sizes},
    nn::LayerShape,
};

#[cfg(test)]
mod tests;

/// The keys that affect the result.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Config {
    /// Numbers of channels, special ids and delays.
    pub data: DataConfig,
    /// Sizes of the networks.
    pub model: ModelConfig,
    /// Weights of the stages, and the longest run.
    pub runtime: RuntimeConfig,
    /// Places of the tokenizer and of the codec.
    #[serde(default)]
    pub assets: Assets,
}

/// Numbers of channels, special ids and delays.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DataConfig {
    /// Two text channels, and one for each codebook.
    pub channels: usize,
    /// Rows of a text table.
    pub text_vocab_size: usize,
    /// Rows of a code table: the codes, then two marks.
    pub audio_vocab_size: usize,
    /// Number of actions.
    pub action_vocab_size: usize,
    /// Text id of a step without text.
    pub text_pad_token_id: u32,
    /// Text id of the begin of a word.
    pub text_new_word_token_id: u32,
    /// Text id of the unconditional row.
    #[serde(default = "zero_token")]
    pub text_zero_token_id: u32,
    /// Mark before the first code of a codebook; the last but one id if absent.
    audio_bos_token_id: Option<u32>,
    /// Mark after the last code of a codebook; the last id if absent.
    audio_pad_token_id: Option<u32>,
    /// Steps by which each codebook is late.
    #[serde(default)]
    pub delay_pattern: Vec<usize>,
    /// Words by which the second text channel is early; 0 for one channel only.
    #[serde(default)]
    pub second_stream_ahead: usize,
    /// Place of the tokenizer, if no asset names one.
    pub tokenizer_path: Option<String>,
    action_pad_token_id: u32,
    action_new_word_token_id: u32,
}

/// Sizes of the networks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ModelConfig {
    /// The backbone.
    pub decoder: DecoderConfig,
    /// The depformer.
    pub depformer: DepformerConfig,
    /// Activations of the backbone.
    #[serde(default)]
    pub linear: LinearConfig,
    /// Position of one radian of the fastest rotation.
    #[serde(default = "min_timescale")]
    pub rope_min_timescale: f64,
    /// Limit of the slowest one.
    #[serde(default = "max_timescale")]
    pub rope_max_timescale: f64,
    /// Epsilon under the root of every norm.
    #[serde(default = "epsilon")]
    pub normalization_layer_epsilon: f64,
}

/// Sizes of the backbone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DecoderConfig {
    /// Number of layers.
    pub n_layer: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Width inside the feed-forward blocks.
    pub n_hidden: usize,
    /// Query heads.
    pub gqa_query_heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of one head.
    pub gqa_head_dim: usize,
    /// Width of the text table, if it is not `n_embd`.
    pub low_rank_dim: Option<usize>,
}

/// Sizes of the depformer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DepformerConfig {
    /// Number of layers.
    pub n_layer: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Width inside the feed-forward blocks.
    pub n_hidden: usize,
    /// Query heads.
    pub gqa_query_heads: usize,
    /// Key and value heads; as many.
    pub kv_heads: usize,
    /// Width of one head.
    pub gqa_head_dim: usize,
    /// True if queries and keys are rotated by the stage.
    #[serde(default = "yes")]
    pub apply_rope: bool,
    /// True if the first stage reads the text.
    #[serde(default = "yes")]
    pub text_embedding: bool,
    /// Activations of its feed-forward blocks.
    #[serde(default = "silu_and_linear")]
    pub mlp_activations: [Function; 2],
}

/// Activations of the backbone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LinearConfig {
    /// Activations of the two halves of a feed-forward block.
    #[serde(default = "silu_and_linear")]
    pub mlp_activations: [Function; 2],
}

/// An activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    /// `x sigmoid(x)`.
    #[serde(alias = "swish", alias = "swiglu")]
    Silu,
    /// `x Phi(x)`.
    #[serde(alias = "geglu")]
    Gelu,
    /// `max(x, 0)`.
    Relu,
    /// `x`.
    Linear,
}

/// Weights of the stages, and the longest run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RuntimeConfig {
    /// Number of the weights of each stage of the depformer; one for each stage if absent. A longer list names
    /// weights that no stage reads.
    weights_schedule: Option<Vec<usize>>,
    /// The largest number of steps.
    #[serde(default = "number::<1500>")]
    pub max_context_steps: usize,
}

/// Places of other files: identifiers of the hub, or paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Assets {
    /// The tokenizer.
    pub tokenizer: Option<String>,
    /// The codec.
    pub mimi: Option<String>,
}

impl Default for LinearConfig {
    fn default() -> Self {
        Self { mlp_activations: silu_and_linear() }
    }
}

const fn silu_and_linear() -> [Function; 2] {
    [Function::Silu, Function::Linear]
}

const fn zero_token() -> u32 {
    7
}

const fn min_timescale() -> f64 {
    1.0
}

const fn max_timescale() -> f64 {
    10_000.0
}

const fn epsilon() -> f64 {
    1e-5
}

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is missing or malformed, or asks for something that is not
    /// implemented.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: Self = parse(text)?;
        config.data.check()?;
        config.model.check()?;
        let runtime = &config.runtime;
        size("max_context_steps", runtime.max_context_steps)?;
        if let Some(schedule) = &runtime.weights_schedule {
            let fits = schedule.len() >= config.data.codebooks() - 1;
            let why = "a number for each codebook after the first";
            require(fits, "weights_schedule", schedule, why)?;
            let is_usual = schedule.iter().all(|&id| id <= MOST_CODEBOOKS);
            require(is_usual, "weights_schedule", schedule, "numbers from 0 to 256")?;
        }
        Ok(config)
    }

    /// Returns the number of the weights of each stage of the depformer. The numbers are parts of
    /// names of tensors, and may have gaps.
    pub fn schedule(&self) -> Vec<usize> {
        let mut schedule = self.numbers();
        schedule.truncate(self.data.codebooks() - 1);
        schedule
    }

    fn numbers(&self) -> Vec<usize> {
        let stages = self.data.codebooks() - 1;
        self.runtime.weights_schedule.clone().unwrap_or_else(|| (0..stages).collect())
    }

    /// Returns the different numbers of the configured schedule, in ascending order. The reference has weights for
    /// all of them, also for those of no stage.
    pub fn weight_ids(&self) -> Vec<usize> {
        let mut ids = self.numbers();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// The largest accepted number of codebooks.
const MOST_CODEBOOKS: usize = 256;

impl DataConfig {
    /// Returns the number of codebooks, `K`.
    pub fn codebooks(&self) -> usize {
        self.channels.saturating_sub(2)
    }

    /// Returns the mark before the first code of a codebook.
    pub fn audio_bos(&self) -> u32 {
        self.audio_bos_token_id.unwrap_or((self.audio_vocab_size as u32).saturating_sub(2))
    }

    /// Returns the mark after the last code of a codebook.
    pub fn audio_pad(&self) -> u32 {
        self.audio_pad_token_id.unwrap_or((self.audio_vocab_size as u32).saturating_sub(1))
    }

    /// Returns the number of codes of a codebook, without the marks.
    pub fn codes(&self) -> usize {
        self.audio_bos().min(self.audio_pad()) as usize
    }

    fn check(&self) -> Result<(), ConfigError> {
        let usual = (4..=MOST_CODEBOOKS + 2).contains(&self.channels);
        require(usual, "channels", self.channels, "two of text and from 2 to 256 of codes")?;
        sizes(&keys!(self: text_vocab_size, audio_vocab_size, action_vocab_size))?;
        let actions = self.action_vocab_size;
        require(actions >= 2, "action_vocab_size", actions, "at least pad and new word")?;
        for (key, id, rows) in [
            ("text_pad_token_id", self.text_pad_token_id, self.text_vocab_size),
            ("text_new_word_token_id", self.text_new_word_token_id, self.text_vocab_size),
            ("text_zero_token_id", self.text_zero_token_id, self.text_vocab_size),
            ("audio_bos_token_id", self.audio_bos(), self.audio_vocab_size),
            ("audio_pad_token_id", self.audio_pad(), self.audio_vocab_size),
        ] {
            require((id as usize) < rows, key, id, "must be a row of its table")?;
        }
        let (bos, pad) = (self.audio_bos(), self.audio_pad());
        require(bos != pad, "audio_pad_token_id", pad, "must not be audio_bos_token_id")?;
        let why = "there must be codes before the marks";
        require(self.codes() > 0, "audio_bos_token_id", bos, why)?;
        let delays = &self.delay_pattern;
        let fits = delays.len() == self.codebooks();
        require(fits, "delay_pattern", delays, "one delay for each codebook")?;
        let is_usual = delays.iter().all(|delay| (1..=1000).contains(delay));
        require(is_usual, "delay_pattern", delays, "delays from 1 to 1000 steps")
    }
}

/// The sizes of the layers of a network; both networks have fields of the same names.
macro_rules! layer_shape {
    ($model:ident, $network:ident) => {
        LayerShape {
            hidden: $model.$network.n_embd,
            intermediate: $model.$network.n_hidden,
            heads: $model.$network.gqa_query_heads,
            kv_heads: $model.$network.kv_heads,
            head_dim: $model.$network.gqa_head_dim,
            epsilon: $model.normalization_layer_epsilon,
        }
    };
}

impl ModelConfig {
    fn check(&self) -> Result<(), ConfigError> {
        let Self { decoder, depformer, .. } = self;
        for (depth, shape) in
            [(decoder.n_layer, self.of_decoder()), (depformer.n_layer, self.of_depformer())]
        {
            layers("n_layer", depth)?;
            sizes(&[
                ("n_embd", shape.hidden),
                ("n_hidden", shape.intermediate),
                ("gqa_query_heads", shape.heads),
                ("kv_heads", shape.kv_heads),
                ("gqa_head_dim", shape.head_dim),
            ])?;
            require_groups(shape.heads, shape.kv_heads)?;
            let even = shape.head_dim.is_multiple_of(2);
            require(even, "gqa_head_dim", shape.head_dim, "rotary positions turn pairs of halves")?;
        }
        let heads = depformer.kv_heads;
        let why = "the depformer has as many as gqa_query_heads";
        require(heads == depformer.gqa_query_heads, "kv_heads", heads, why)?;
        decoder.low_rank_dim.map_or(Ok(()), |width| size("low_rank_dim", width))?;
        positive("rope_min_timescale", self.rope_min_timescale)?;
        positive("rope_max_timescale", self.rope_max_timescale)?;
        positive("normalization_layer_epsilon", self.normalization_layer_epsilon)
    }

    /// Returns the sizes of the backbone's layers.
    pub(super) fn of_decoder(&self) -> LayerShape {
        layer_shape!(self, decoder)
    }

    /// Returns the sizes of the depformer's layers.
    pub(super) fn of_depformer(&self) -> LayerShape {
        layer_shape!(self, depformer)
    }
}

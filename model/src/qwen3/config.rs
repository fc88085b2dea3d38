//! `config.json` of a Qwen3 checkpoint.
//!
//! Source: Hugging Face `configuration_qwen3.py`, `Qwen3Config`.

use serde::Deserialize;

use crate::{
    ConfigError,
    config::{
        Ignored, OF_TRANSFORMERS, Rest, parse, refuse_unknown, require, require_plain, rope_theta,
        silu,
    },
    limits::{layer_shape, size, transformer},
    nn::LayerShape,
};

/// The keys of a Qwen3 `config.json` that affect the computation.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Rows of the embedding table.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the feed-forward block.
    pub intermediate_size: usize,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads.
    pub num_key_value_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Base of the rotary angles.
    #[serde(alias = "rope_parameters", deserialize_with = "rope_theta")]
    pub rope_theta: f64,
    /// Epsilon under the root of every norm.
    pub rms_norm_eps: f64,
    /// True if the language model's head is its embedding table.
    #[serde(default)]
    pub tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default = "silu")]
    hidden_act: String,
    #[serde(default)]
    use_sliding_window: bool,
    rope_scaling: Option<serde_json::Value>,
    layer_types: Option<Vec<String>>,
    #[serde(flatten)]
    rest: Rest,
}

/// Keys that do not affect the computation, with the reason.
const IGNORED: &Ignored = &[
    ("bos_token_id", "the tokenizer's business"),
    ("eos_token_id", "the tokenizer's business"),
    ("pad_token_id", "the tokenizer's business"),
    ("max_window_layers", "no layer has a window, see use_sliding_window"),
    ("sliding_window", "no layer has a window, see use_sliding_window"),
];

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is missing, malformed, unknown, or asks for something that is not
    /// implemented.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: Self = parse(text)?;
        refuse_unknown(&config.rest, &[OF_TRANSFORMERS, IGNORED])?;
        size("vocab_size", config.vocab_size)?;
        let (shape, depth) = (config.layer_shape(), config.num_hidden_layers);
        transformer(shape, depth, "rms_norm_eps", config.rope_theta)?;
        require_plain(config.attention_bias, &config.hidden_act, &config.rope_scaling)?;
        require(!config.use_sliding_window, "use_sliding_window", true, "only full attention")?;
        let full = |types: &Vec<String>| types.iter().all(|kind| kind == "full_attention");
        let types = &config.layer_types;
        require(types.as_ref().is_none_or(full), "layer_types", types, "only full_attention")?;
        Ok(config)
    }

    /// Returns the sizes of every layer.
    pub fn layer_shape(&self) -> LayerShape {
        layer_shape!(self, rms_norm_eps)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::tests::assert_refused;

    #[test]
    fn a_size_that_is_absurd_is_refused_by_its_key() {
        let text =
            include_str!("../../../tests/goldens/checkpoints_a/Qwen3-Embedding-0.6B/config.json");
        let changes = [
            ("vocab_size", json!(0)),
            ("hidden_size", json!(1_000_001)),
            ("num_key_value_heads", json!(0)),
            ("num_key_value_heads", json!(3)),
            ("head_dim", json!(15)),
            ("num_hidden_layers", json!(1025)),
            ("rms_norm_eps", json!(0.0)),
            ("rope_theta", json!(-1)),
        ];
        assert_refused(Config::from_json, text, changes);
    }
}

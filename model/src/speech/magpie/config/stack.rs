//! The layers of an encoder or a decoder, by their keys. Absent keys have the defaults of the reference.
//!
//! Source: NeMo 3.0.0 `tts/modules/transformer_2501.py`, `Transformer`.

use serde::Deserialize;

use crate::{
    config::{ConfigError, number, require, yes},
    limits::{layers, sizes},
};

/// The layers of an encoder or a decoder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StackConfig {
    /// Number of layers.
    pub n_layers: usize,
    /// Width of a row.
    pub d_model: usize,
    /// Width inside the feed-forward block.
    pub d_ffn: usize,
    /// Heads of self attention.
    pub sa_n_heads: usize,
    /// Taps of the convolutions of the feed-forward block.
    pub kernel_size: usize,
    /// Rows of the table of positions.
    #[serde(default = "number::<4096>")]
    pub max_length_causal_mask: usize,
    #[serde(default = "yes")]
    pub(super) is_causal: bool,
    #[serde(default)]
    pub(super) apply_norm_out: bool,
    #[serde(default)]
    pub(super) use_learnable_pos_emb: bool,
    #[serde(default)]
    pub(super) use_moe: bool,
}

/// The layers of the decoder and their cross attention.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DecoderConfig {
    /// The layers.
    #[serde(flatten)]
    pub stack: StackConfig,
    /// Width of a head of cross attention, if the heads do not share the width of a row.
    pub xa_d_head: Option<usize>,
    /// Width of the memory.
    pub xa_d_memory: usize,
    /// Heads of cross attention.
    pub xa_n_heads: usize,
    #[serde(default)]
    pub(super) has_xattn: bool,
    #[serde(default = "yes")]
    pub(super) apply_norm_to_cond: bool,
}

impl DecoderConfig {
    /// Returns the width of a head of cross attention.
    pub fn head_width(&self) -> usize {
        self.xa_d_head.unwrap_or_else(|| self.stack.d_model / self.xa_n_heads)
    }
}

impl StackConfig {
    /// True if a norm follows the layers.
    pub fn has_norm_out(&self) -> bool {
        self.apply_norm_out
    }

    pub(super) fn check(&self, width: usize) -> Result<(), ConfigError> {
        require(self.is_causal, "is_causal", self.is_causal, "only causal layers")?;
        let learned = self.use_learnable_pos_emb;
        require(learned, "use_learnable_pos_emb", learned, "only learned positions")?;
        require(!self.use_moe, "use_moe", self.use_moe, "only one feed-forward block")?;
        require(self.d_model == width, "d_model", self.d_model, "must be embedding_dim")?;
        layers("n_layers", self.n_layers)?;
        sizes(&[
            ("d_model", self.d_model),
            ("d_ffn", self.d_ffn),
            ("max_length_causal_mask", self.max_length_causal_mask),
        ])?;
        require((1..=64).contains(&self.kernel_size), "kernel_size", self.kernel_size, "1 to 64")?;
        let divides = self.sa_n_heads > 0 && self.d_model.is_multiple_of(self.sa_n_heads);
        require(divides, "sa_n_heads", self.sa_n_heads, "must divide d_model")
    }
}

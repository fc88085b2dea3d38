//! The released sizes, from their `config.json` files.

use acestep_model::{acestep, oobleck, qwen3};
use anyhow::Result;
use serde_json::{Value, json};

use crate::families::{released, with};

/// Sizes of a diffusion model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// 2B, one forward pass per step.
    Turbo,
    /// 2B with guidance, two forward passes per step.
    Base,
    /// XL, one forward pass per step.
    Xl,
}

/// Sizes of a language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LanguageSizes {
    B06,
    B17,
    B4,
}

impl Sizes {
    /// Returns the rows of one pass: guidance runs both halves at once.
    pub(crate) fn rows(self) -> usize {
        if self == Self::Base { 2 } else { 1 }
    }

    /// Returns the diffusion model's configuration.
    pub(crate) fn config(self) -> Result<acestep::Config> {
        released(acestep::Config::from_json, &self.values())
    }

    /// Returns the diffusion model's `config.json`.
    pub(crate) fn values(self) -> Value {
        let config = json!({
            "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
            "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
            "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1_000_000,
            "attention_bias": false, "use_sliding_window": true, "sliding_window": 128,
            "fsq_dim": 2048, "fsq_input_levels": [8, 8, 8, 5, 5, 5],
            "fsq_input_num_quantizers": 1,
            "text_hidden_dim": 1024, "num_lyric_encoder_hidden_layers": 8,
            "timbre_hidden_dim": 64, "num_timbre_encoder_hidden_layers": 4,
            "timbre_fix_frame": 750, "audio_acoustic_hidden_dim": 64, "pool_window_size": 5,
            "num_attention_pooler_hidden_layers": 2, "patch_size": 2, "in_channels": 192,
            "is_turbo": self != Self::Base,
        });
        let wider = json!({
            "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 32,
            "num_attention_heads": 32, "encoder_hidden_size": 2048,
            "encoder_intermediate_size": 6144, "encoder_num_attention_heads": 16,
            "encoder_num_key_value_heads": 8,
        });
        if self == Self::Xl { with(config, &wider) } else { config }
    }
}

impl LanguageSizes {
    /// Returns the language model's configuration.
    pub(crate) fn config(self) -> Result<qwen3::Config> {
        released(qwen3::Config::from_json, &self.values())
    }

    /// Returns the language model's `config.json`.
    pub(crate) fn values(self) -> Value {
        let (hidden, intermediate, layers, heads) = match self {
            Self::B06 => (1024, 3072, 28, 16),
            Self::B17 => (2048, 6144, 28, 16),
            Self::B4 => (2560, 9728, 36, 32),
        };
        json!({
            "vocab_size": 217_204, "hidden_size": hidden, "intermediate_size": intermediate,
            "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": 8,
            "head_dim": 128, "rope_theta": 1_000_000, "rms_norm_eps": 1e-6,
            "tie_word_embeddings": true, "max_position_embeddings": 40_960,
        })
    }
}

/// Returns the text encoder's configuration.
pub(crate) fn text_encoder_config() -> Result<qwen3::Config> {
    released(qwen3::Config::from_json, &text_encoder_values())
}

/// Returns the text encoder's `config.json`.
pub(crate) fn text_encoder_values() -> Value {
    json!({
        "vocab_size": 151_669, "hidden_size": 1024, "intermediate_size": 3072,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
        "head_dim": 128, "rope_theta": 1_000_000, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 32_768,
    })
}

/// Returns the autoencoder's configuration.
pub(crate) fn vae_config() -> Result<oobleck::Config> {
    released(oobleck::Config::from_json, &vae_values())
}

/// Returns the autoencoder's `config.json`.
pub(crate) fn vae_values() -> Value {
    json!({
        "audio_channels": 2, "encoder_hidden_size": 128, "decoder_channels": 128,
        "decoder_input_channels": 64, "channel_multiples": [1, 2, 4, 8, 16],
        "downsampling_ratios": [2, 4, 4, 6, 10], "sampling_rate": 48_000,
    })
}

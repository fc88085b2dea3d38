//! `generation_config.json`: the sampling settings of a checkpoint.
//!
//! Source: upstream `Qwen3TTSModel._merge_generate_kwargs`, whose defaults apply to missing keys.

use serde::{Deserialize, Serialize};

use super::super::inherited::{INHERITED, without};
use crate::{
    ConfigError,
    config::{Rest, parse, refuse_unknown, require},
    limits::positive,
};

/// Sampling settings, with upstream's names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerationConfig {
    /// False: the talker takes the likeliest code.
    pub do_sample: bool,
    /// Number of likeliest codes to draw from; 0 for all.
    pub top_k: usize,
    /// Probability mass of the likeliest codes to draw from; 1 for all.
    pub top_p: f32,
    /// Divisor of the talker's logits, above 0.
    pub temperature: f32,
    /// Penalty of first codes that were written before; 1 for none.
    pub repetition_penalty: f32,
    /// False: the code predictor takes the likeliest code.
    pub subtalker_dosample: bool,
    /// As `top_k`, for the code predictor.
    pub subtalker_top_k: usize,
    /// As `top_p`, for the code predictor.
    pub subtalker_top_p: f32,
    /// As `temperature`, for the code predictor.
    pub subtalker_temperature: f32,
    /// Limit on first codes: at most one frame less is made.
    pub max_new_tokens: usize,
    #[serde(flatten, skip_serializing)]
    rest: Rest,
}

/// Keys that do not affect the result, with the reason.
const IGNORED: &[(&str, &str)] = &[
    ("_from_model_config", "bookkeeping"),
    ("min_new_tokens", "not used by the reference: always two"),
    ("use_cache", "a cache does not change the result"),
];

impl Default for GenerationConfig {
    fn default() -> Self {
        Self {
            do_sample: true,
            top_k: 50,
            top_p: 1.0,
            temperature: 0.9,
            repetition_penalty: 1.05,
            subtalker_dosample: true,
            subtalker_top_k: 50,
            subtalker_top_p: 1.0,
            subtalker_temperature: 0.9,
            max_new_tokens: 2048,
            rest: Rest::new(),
        }
    }
}

impl GenerationConfig {
    /// Reads `generation_config.json`.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is malformed, unknown or out of range.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: Self = parse(text)?;
        // `do_sample`, `top_k` and others are inherited by a `config.json`, but are fields here.
        refuse_unknown(&without(&config.rest, INHERITED), &[IGNORED])?;
        config.check()?;
        Ok(config)
    }

    /// Checks the ranges that upstream checks.
    ///
    /// # Errors
    /// [`ConfigError`] with the key.
    pub fn check(&self) -> Result<(), ConfigError> {
        positive("temperature", self.temperature.into())?;
        positive("subtalker_temperature", self.subtalker_temperature.into())?;
        positive("repetition_penalty", self.repetition_penalty.into())?;
        for (key, p) in [("top_p", self.top_p), ("subtalker_top_p", self.subtalker_top_p)] {
            require((0.0..=1.0).contains(&p), key, p, "from 0 to 1")?;
        }
        let tokens = self.max_new_tokens;
        require(tokens >= 2, "max_new_tokens", tokens, "at least 2: one frame and its end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As transformers saves it.
    #[test]
    fn a_file_without_settings_has_the_defaults() {
        let config = GenerationConfig::from_json(r#"{"_from_model_config": true}"#);
        assert_eq!(config.expect("no settings").max_new_tokens, 2048);
    }
}
